"""Devices, randomness and memory: what a run asks of the machine."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rollpe.errors import InputError
from rollpe_lab.training.recipe import Recipe

NO_MEMORY = ("out of memory", "can't allocate memory", "failed to allocate")
"""What errors say when an allocation fails: CUDA's, a compiler's around it, and the CPU's."""


class TrainingError(RuntimeError):
    """A run that cannot be finished: one line with where it broke off and what to try."""


def choose_device(name: str) -> torch.device:
    """ "auto" is the first of cuda, mps, cpu that is here. Raises InputError for what is not."""
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next((kind for kind, present in here.items() if present), "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError):
        available = ", ".join(["auto", "cpu", *(kind for kind, present in here.items() if present)])
        raise InputError(f"device={name!r} is not available here. Allowed: {available}.") from None
    return device


def stream(seed: int, purpose: str) -> int:
    """A seed of its own for every purpose, so that one draw more in one never moves another."""
    return int.from_bytes(hashlib.sha256(f"{purpose} {seed}".encode()).digest()[:7])


def keep_freed_memory() -> None:
    """Let this process keep what a step frees: glibc would return it and fault it in again at the next step.

    It then holds its largest memory until it ends. Other C libraries have no such switch.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):
            for threshold in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD: bytes from which pages go back
                ctypes.CDLL(None).mallopt(threshold, 2**30)


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Give the global random state back afterwards; on the CPU also forbid racing additions.

    On an accelerator sums are taken in an order that differs from run to run: faster, and equal
    only in distribution.
    """
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.use_deterministic_algorithms(before or device.type == "cpu")
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def global_generator(device: torch.device) -> torch.Generator:
    """The generator that dropout draws from."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    return torch.default_generator


@contextmanager
def enough_memory(recipe: Recipe) -> Iterator[None]:
    """Turn a failed allocation on an accelerator into one line with a way out."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one; compilers and graphs raise others
        if not any(sign in str(error).lower() for sign in NO_MEMORY):
            raise
        raise TrainingError(
            f"out of memory at batch_size={recipe.batch_size}. "
            f"Try --set batch_size={max(1, recipe.batch_size // 2)}."
        ) from None
