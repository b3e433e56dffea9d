"""One run on several processes: rank, share of the batch, and sums over all processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from rollpe.errors import InputError


@dataclass(frozen=True)
class Group:
    """The processes of one run; rank 0 writes."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def part(self, batch: int) -> slice:
        """This process's images of every batch. Raises InputError if the shares are uneven."""
        if batch % self.size:
            raise InputError(
                f"batch_size={batch} cannot be shared evenly by {self.size} processes. Choose a multiple of "
                f"{self.size}, or another number of processes."
            )
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, on every process."""
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def mean(self, values: Tensor) -> Tensor:
        return self.total(values) / self.size


ALONE = Group()


def processes() -> int:
    """Number of processes that `torchrun` started for this run; 1 without torchrun."""
    return numbered("WORLD_SIZE", 1, least=1)


def numbered(variable: str, default: int, least: int = 0) -> int:
    """The value of a variable that `torchrun` sets to a whole number."""
    text = os.environ.get(variable, str(default))
    if not text.isdecimal() or int(text) < least:
        raise InputError(f"{variable}={text!r}: allowed is an integer ≥ {least}. Leave it to torchrun.")
    return int(text)


def is_main_process() -> bool:
    """Whether this process prints, known before the processes have joined."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """Join the other processes of this run, over NCCL on CUDA, else over Gloo."""
    if processes() == 1:
        yield ALONE
        return
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    except ValueError as error:  # it reads other variables of torchrun
        reason = str(error).splitlines()[0]
        raise InputError(f"the processes cannot join ({reason}). Start them with torchrun.") from None
    try:
        yield Group(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
