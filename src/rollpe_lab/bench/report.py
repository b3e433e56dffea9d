"""What a benchmark leaves behind: its measurements as plain data, its table, its file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollpe.errors import InputError
from rollpe_lab.files import markdown, write_atomically
from rollpe_lab.records.record import Environment, Provenance


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True)  # older files have more keys


class Timing(_Plain):
    """Median time of one model's training step, in milliseconds.

    ratio: median over rounds of this step's time divided by the reference's time in the same round. The
        reference of an encoding is ``none``, that of timm's model is our model with the same encoding.
    gflop: counted floating-point operations of one step, in units of 10⁹.
    share_of_peak: operations a second, divided by those of the fastest matrix product.
    """

    name: str
    median: float
    ratio: float
    images_per_second: float
    gflop: float
    share_of_peak: float


class Benchmark(_Plain):
    """The measurements of one run of the benchmark, its settings and its machine.

    recipe: name of the timed recipe; "" in older files, which timed "strong" without drop path.
    failed: one-line errors by model.
    again: in older files, median over rounds of the step without encoding divided by that of a second such
        model.
    """

    recipe: str = ""
    size: str
    image_size: int
    patch_size: int
    batch: int
    compiled: bool
    precision: str
    rounds: int
    peak_gflops: float
    encodings: list[Timing]
    timm: list[Timing]
    failed: dict[str, str] = {}
    again: float | None = Field(None, exclude=True)
    environment: Environment
    provenance: Provenance

    @property
    def chance(self) -> float:
        """The least factor by which chance moved a step: the largest gain of a model that has none.

        That is an encoding beside none, and in older files a step beside itself.
        """
        same = self.again or 1.0
        return max(same, 1 / same, *(1 / t.ratio for t in self.encodings))

    def to_markdown(self) -> str:
        """One row for each encoding, with the machine under them."""
        e, mode = self.environment, "compiled" if self.compiled else "eager"
        theirs = {t.name: f"{t.ratio:.3f}" for t in self.timm}
        rows = [["encoding", "ms a step", "÷ none", "timm ÷ ours", "images/s", "share of peak"]]
        for t in self.encodings:
            numbers = f"{t.median:.1f}", f"{t.ratio:.3f}", theirs.get(t.name, "–")
            rows.append([f"`{t.name}`", *numbers, f"{t.images_per_second:,.0f}", f"{t.share_of_peak:.0%}"])
        blocks = [
            markdown(rows),
            "\n".join(f"- `{name}` failed: {reason}" for name, reason in self.failed.items()),
            f"ViT {self.size}, {self.image_size}×{self.image_size} pixels in patches of {self.patch_size}, "
            f"recipe {self.recipe}, batch {self.batch}, {self.precision}, {mode}, {self.rounds} rounds. "
            f"Largest measured matrix product: {self.peak_gflops:,.0f} GFLOP/s. {e.device_name}, "
            f"{e.threads} threads, torch {e.torch}, timm {e.timm}.",
        ]
        return "\n\n".join(filter(None, blocks))

    def write(self, folder: str | Path) -> Path:
        """Write JSON into ``folder``, named by device, model and start; returns its path."""
        stamp = datetime.fromisoformat(self.provenance.started).strftime("%Y-%m-%dT%H%M")
        mode = "compiled" if self.compiled else "eager"
        path = Path(folder) / f"{self.environment.device.partition(':')[0]}-{self.size}-{mode}-{stamp}.json"
        write_atomically(path, self.model_dump_json(indent=1).encode())
        return path


def newest_by_device(folder: str | Path = "data/benchmarks") -> dict[str, Benchmark]:
    """The newest benchmark in a folder of each kind of device, "cpu" or "cuda"."""
    return {b.environment.device.partition(":")[0]: b for b in read_benchmarks(folder)}  # oldest come first


def read_benchmarks(folder: str | Path = "data/benchmarks") -> list[Benchmark]:
    """All benchmarks in a folder, oldest first. Raises InputError for a file that is not a benchmark."""
    benchmarks = []
    for path in Path(folder).glob("*.json"):
        try:
            benchmarks.append(Benchmark.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(f"{path}: damaged, {where}: {first['msg']}. Restore it or time anew.") from None
    return sorted(benchmarks, key=lambda b: b.provenance.started)
