"""What a benchmark leaves behind: its measurements as plain data, its tables, its files."""

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
    """Time of one model's training step in milliseconds: median and quartiles over rounds.

    ratio: median over rounds of this step's time divided by the reference's time in the same round.
    images_per_second_augmented: with the recipe's augmentation, applied to many batches at once.
    gflop: counted floating-point operations of one step, in units of 10⁹.
    """

    name: str
    median: float
    low: float
    high: float
    ratio: float
    images_per_second: float
    images_per_second_augmented: float | None = None
    gflop: float
    share_of_peak: float
    parameters: int


class Scaling(_Plain):
    """Median time of one encoding's training step, in milliseconds, at one number of patches."""

    encoding: str
    patches: int
    batch: int
    median: float


class _Variant(_Plain):
    name: str
    gain: float | None = None


class Benchmark(_Plain):
    """The measurements of one run of the benchmark, its settings and its machine.

    recipe: name of the timed recipe; "" in older files, which timed "strong" without drop path.
    rounds: timed rounds of the encodings; fewer than requested if the budget ran out.
    missing: models, and the profile, that the budget left no time for. failed: one-line errors by model.
    again: median over rounds of the step without encoding divided by that of a second such model.
    variants: in older files, other ways to run the step; the one named as the precision is the step itself.
    profile: table of the device's operations in a step, which `write` writes to a file of its own.
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
    augmentation_milliseconds: float
    encodings: list[Timing]
    timm: list[Timing]
    missing: list[str] = []
    failed: dict[str, str] = {}
    again: float | None = None
    variants: list[_Variant] = Field([], exclude=True)
    scaling: list[Scaling]
    profile: str = Field("", exclude=True)
    environment: Environment
    provenance: Provenance

    @property
    def chance(self) -> float:
        """The least factor by which chance moved a step: the largest gain of a model that has none.

        That is an encoding beside none, and a step beside itself.
        """
        twice = {variant.name: variant.gain for variant in self.variants}
        same = self.again or twice.get(self.precision) or 1.0
        return max(same, 1 / same, *(1 / t.ratio for t in self.encodings))

    def to_markdown(self) -> str:
        """The tables of the benchmark, with the machine under them."""
        e, mode = self.environment, "compiled" if self.compiled else "eager"
        missing = ", ".join(f"`{name}`" for name in self.missing)
        blocks = [
            _timings_table("model|÷ none", self.encodings),
            _timings_table("timm's own model, our step|timm ÷ ours", self.timm),
            missing and f"Not measured, no time left: {missing}.",
            "\n".join(f"- `{name}` failed: {reason}" for name, reason in self.failed.items()),
            self.scaling_table(),
            f"ViT {self.size}, {self.image_size}×{self.image_size} pixels in patches of {self.patch_size}, "
            f"batch {self.batch}, {self.precision}, {mode}, {self.rounds} rounds. Largest measured matrix "
            f"product: {self.peak_gflops:,.0f} GFLOP/s. Augmentation (recipe {self.recipe or 'strong'}): "
            f"{self.augmentation_milliseconds:.1f} ms a batch. {e.device_name}, {e.threads} threads, "
            f"torch {e.torch}, timm {e.timm}.",
        ]
        return "\n\n".join(filter(None, blocks))

    def scaling_table(self) -> str:
        """A table of the encodings that were timed with several numbers of patches."""
        counts = sorted({s.patches for s in self.scaling})
        cells = {(s.encoding, s.patches): f"{1000 * s.median / s.batch:,.0f}" for s in self.scaling}
        names = dict.fromkeys(s.encoding for s in self.scaling)
        rows = [[f"`{n}`", *(cells.get((n, count), "not measured") for count in counts)] for n in names]
        return markdown([["µs an image", *(f"{count} patches" for count in counts)], *rows]) if rows else ""

    def write(self, folder: str | Path) -> Path:
        """Write JSON and Markdown into ``folder``, named by device, model and start; returns the JSON.

        The profile is written beside them, as ``<name>-profile.txt``.
        """
        stamp = datetime.fromisoformat(self.provenance.started).strftime("%Y-%m-%dT%H%M")
        mode = "compiled" if self.compiled else "eager"
        path = Path(folder) / f"{self.environment.device.partition(':')[0]}-{self.size}-{mode}-{stamp}.json"
        write_atomically(path, self.model_dump_json(indent=1).encode())
        write_atomically(path.with_suffix(".md"), (self.to_markdown() + "\n").encode())
        if self.profile:
            write_atomically(path.with_name(f"{path.stem}-profile.txt"), (self.profile + "\n").encode())
        return path


def _timings_table(head: str, timings: list[Timing]) -> str:
    rows = [
        [
            f"`{t.name}`",
            f"{t.ratio:.3f}",
            f"{t.median:.1f}",
            f"{t.low:.1f} to {t.high:.1f}",
            f"{t.images_per_second:,.0f}",
            f"{t.images_per_second_augmented or 0:,.0f}",
            f"{100 * t.share_of_peak:.0f} %",
            f"{t.parameters:,}",
        ]
        for t in timings
    ]
    columns = f"{head}|ms a step|quartiles|images/s|augmented|share of peak|parameters".split("|")
    return markdown([columns, *rows]) if rows else ""


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
