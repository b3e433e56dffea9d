"""The moving figures: their formulas against the library, and their stills."""

from __future__ import annotations

import itertools
import json
import math
import re

import pytest
import torch
import torch.nn.functional as F

from rollpe import formulas, ring, topography
from rollpe.encodings import frequencies
from rollpe_book.extension.waves import ON_DEMAND, still
from rollpe_book.figures.waves import WAVES, bump
from scripts import angle_list, eigenvalue_count, in_node, period
from shared import ROOT

SCRIPTS = ROOT / "book/scripts"


# ------------------------------------------------------------------------------------------------- formulas


def golden_cases(seed: int) -> list[tuple[str, list, object]]:
    """(function of formulas.js, its arguments, what rollpe computes)."""
    rng = torch.Generator().manual_seed(seed)

    def vector(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    cases: list[tuple[str, list, object]] = []
    for n in (2, 3, 9, 10, 16):
        x = vector(n)
        modes = torch.view_as_real(torch.fft.rfft(x, norm="ortho"))
        cases += [
            ("bump", [n, 1.5, 4], bump(n, 1.5, 4)),
            ("spectrum", [x], modes),
            ("ringFrequencies", [n, 0.7], frequencies.ring(n, 0.7)),
            ("wavePeriod", [n, 6], ring.wave_period(n, 6)),
        ]
        cases += [("roll", [x, p], ring.roll(x, p)) for p in (-5, 0, 3, 40)]
        waves = vector(3, n)
        cases += [("multiplexedRoll", [waves, p], ring.multiplexed_roll(waves, p)) for p in (-2, 7)]
        for p in (-3.75, 0.0, 0.5, 1.0, 6.2):
            for arguments in itertools.product([x], [p], (1.0, -0.341), ("fixed", "cosine")):
                cases.append(("continuousRoll", list(arguments), ring.continuous_roll(*arguments)))
            both = vector(2 * n)
            moved = ring.continuous_roll(both, p, nyquist="paired")
            cases.append(("continuousRoll", [both, p, 1, "paired"], moved))
            at = ring.continuous_roll(x, p, nyquist="cosine")[0]
            cases.append(("through", [x, p], at))
    for p in (0.0, 0.3, 1.0, 2.5):
        lone = torch.tensor([1.0, -1.0], dtype=torch.float64) / 2**0.5  # the Nyquist mode of two channels
        for nyquist in ("fixed", "cosine", "paired"):
            x = torch.cat((lone, 0 * lone)) if nyquist == "paired" else lone
            moved = ring.continuous_roll(x, p, nyquist=nyquist).split(2)
            place = torch.stack([part @ lone for part in moved])
            cases.append(("nyquistPlace", [p, nyquist], F.pad(place, (0, 2 - len(place)))))
    for n in (2, 3, 16):
        packed = 127 * torch.tanh(vector(n * (n - 1) // 2))
        r = topography.unpack_correlations(packed)
        cases.append(("channelCorrelations", [packed], r))
        cases.append(("nearAndAny", [r], torch.stack(topography.near_and_any(r))))
    q, k, theta = vector(8), vector(8), frequencies.geometric(4)
    cases.append(("ropeFrequencies", [8], theta))
    for delta in (-11.0, 0.0, 0.4, 100.0):
        cases.append(("ropeScore", [q, k, delta, theta], formulas.rope_score(q, k, delta, theta)))
        kernel = formulas.similarity_kernel(torch.tensor(delta, dtype=torch.float64), theta)
        cases.append(("similarityKernel", [delta, theta], kernel))
    for m in (4, 8, 14):
        lists = {"ring": 2 * m - 1, "twisted": 2 * m, "residues": m, "geometric": 2 * m}
        functions = ("ringFrequencies", "twistedFrequencies", "residueFrequencies", "ropeFrequencies")
        for function, (name, argument) in zip(functions, lists.items(), strict=True):
            angles = angle_list(name, m)
            cases.append((function, [argument], angles))
            for stretched in (angles, angles / 0.25, angles / 1.7):
                cases.append(("period", [stretched], period(stretched)))
                cases.append(("eigenvalueCount", [stretched], eigenvalue_count(stretched)))
    for omega in (0.0, 1.0, math.pi, 4.0, 6.9, 17.5):
        cases.append(("apparentFrequency", [omega], math.acos(math.cos(omega))))
    return cases


def plain(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


def computed(cases: list[list]) -> list:
    """What formulas.js computes for every (function, arguments, …); made functions take the last argument."""
    code = f"""
        import * as module from {json.dumps((SCRIPTS / "formulas.js").as_uri())};
        const value = (made, args) => (typeof made === "function" ? made(args.at(-1)) : made);
        const cases = JSON.parse(await new Response(process.stdin).text());
        console.log(JSON.stringify(cases.map(([name, args]) => value(module[name](...args), args))));
    """
    return in_node(["--input-type=module", "--eval", code], cases)


def test_every_formula_of_the_figures_computes_what_the_library_does():
    cases = [case for seed in (0, 1, 2) for case in golden_cases(seed)]
    golden = [[name, [plain(a) for a in arguments], plain(value)] for name, arguments, value in cases]
    found = computed(golden)
    assert len(found) == len(golden)
    for (name, arguments, expected), value in zip(golden, found, strict=True):
        left, right = torch.tensor([value, expected], dtype=torch.float64)
        error = (left - right).abs().max().item()
        assert error <= 1e-12 * max(1.0, right.abs().max().item()), (name, arguments, error)


def test_no_exported_formula_goes_unchecked():
    exported = re.findall(r"^export const (\w+)", (SCRIPTS / "formulas.js").read_text(), re.MULTILINE)
    names = set(exported) - {"TAU", "chosen", "logWeights"}  # these two are in test_picture.py
    checked = {name for name, _, _ in golden_cases(0)}
    assert names - {"range", "mod", "sum", "mean", "dot", "norm", "add", "subtract", "pulse"} == checked


@pytest.mark.parametrize("m", [4, 8, 10])
def test_a_list_of_angles_repeats_and_spans_what_its_steps_do(m):
    repeats = {"ring": 2 * m - 1, "twisted": 4 * m, "residues": m**2 - 1}
    for name, after in repeats.items():
        angles = angle_list(name, m)
        W = formulas.rotation_matrix(angles)
        powers = torch.stack([torch.linalg.matrix_power(W, p) for p in range(after + 1)])
        one = (powers[1:] - powers[0]).abs().amax((1, 2)) < 1e-9
        assert period(angles) == after == 1 + one.nonzero().item()
        assert eigenvalue_count(angles) == torch.linalg.matrix_rank(powers.flatten(1)).item()
    assert period(angle_list("geometric", m)) == 0 and eigenvalue_count(angle_list("geometric", m)) == 2 * m
    assert period(torch.zeros(m)) == eigenvalue_count(torch.zeros(m)) == 1


# ------------------------------------------------------------------------------------------------ the still


@pytest.mark.parametrize("name", WAVES)
def test_every_wave_has_a_still_with_its_numbers_the_same_in_every_build(name):
    data = ON_DEMAND[name](ROOT) if name in ON_DEMAND else {}
    first, second = (still(name, WAVES[name].start, data) for _ in range(2))
    assert first == second and len(first) > 2000
    for panel in first.split('<div class="wave-panel ')[1:]:
        assert re.search(r"<svg .*<(path|line|rect)\b", panel)
    assert not re.search(r"undefined|NaN|Infinity|<a\b|></b>", first)
