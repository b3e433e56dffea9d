"""What a benchmark leaves behind: its measurements as plain data, its tables, its files.

Not here: measuring (timing.py, variants.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from rollpe.errors import InputError
from rollpe.files import write_atomically
from rollpe.records.record import Environment, Provenance


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_READY = AliasChoices("ready_seconds", "first_step_seconds")


class Timing(_Plain):
    """Time of one model's training step in milliseconds: median and quartiles over rounds.

    ratio: median over rounds of this step's time divided by the reference's time in the same round.
    images_per_second_augmented: with the recipe's augmentation, applied to many batches at once.
    gflop: counted floating-point operations of one step, in units of 10⁹.
    ready_seconds: time of the first two steps, which compile the step and record CUDA graphs. Programs that
        an earlier process compiled are read from disk. Older files have the time of the first step alone.
    peak_memory_mib: memory of the model, its optimizer and its second step, in MiB; None without CUDA.
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
    ready_seconds: float = Field(validation_alias=_READY)
    peak_memory_mib: float | None
    parameters: int


class Scaling(_Plain):
    """Median time of one encoding's training step, in milliseconds, at one number of patches."""

    encoding: str
    patches: int
    batch: int
    median: float


class Alone(_Plain):
    """Time to turn queries and keys by tables that are ready, without gradients, in milliseconds.

    other: "timm", or "rotate_half" as in Hugging Face transformers. ours, theirs: medians over rounds.
    ratio: median over rounds of our time divided by theirs in the same round.
    """

    encoding: str
    other: str
    compiled: bool
    ours: float
    theirs: float
    ratio: float


class VariantTiming(_Plain):
    """One way to run a step, compared with another: its expected and its measured speed.

    of: "step", or "augmentation" (of one batch). against: name of the variant it is compared with.
    expected: lowest and highest expected gain, written before the first measurement; None without a guess.
    milliseconds: median time of a call. gain: median over rounds of the speed in images per second, divided
        by the speed of `against`. These and ready_seconds are None if not measured; missing says why.
    """

    name: str
    description: str
    of: str
    against: str
    expected: tuple[float, float] | None
    batch: int
    milliseconds: float | None = None
    gain: float | None = None
    ready_seconds: float | None = Field(None, validation_alias=_READY)
    missing: str = ""


class Benchmark(_Plain):
    """The measurements of one run of the benchmark, its settings and its machine.

    recipe: name of the timed recipe; "" in older files, which timed "strong" without drop path.
    rounds: timed rounds of the encodings; fewer than requested if the budget ran out.
    missing: models that were not timed because the budget ran out. failed: one-line errors by model.
    profiles: table of the device's operations in a step, by encoding; `write` writes each to its own file.
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
    plain: list[Timing] = []
    alone: list[Alone] = []
    missing: list[str] = []
    failed: dict[str, str] = {}
    variants: list[VariantTiming] = []
    scaling: list[Scaling]
    profiles: dict[str, str] = Field({}, exclude=True)
    environment: Environment
    provenance: Provenance

    def to_markdown(self) -> str:
        """The tables of the benchmark, with the machine under them."""
        e, mode = self.environment, "compiled" if self.compiled else "eager"
        missing = ", ".join(f"`{name}`" for name in self.missing)
        blocks = [
            self._encodings_table(),
            _timm_table("timm's own model, our step", self.timm),
            _timm_table("timm's own model, a plain step", self.plain),
            self._alone_table(),
            missing and f"Not measured, no time left: {missing}.",
            "\n".join(f"- `{name}` failed: {reason}" for name, reason in self.failed.items()),
            self._variants_table(),
            self._scaling_table(),
            f"ViT {self.size}, {self.image_size}×{self.image_size} pixels in patches of {self.patch_size}, "
            f"batch {self.batch}, {self.precision}, {mode}, {self.rounds} rounds. Largest measured matrix "
            f"product: {self.peak_gflops:,.0f} GFLOP/s. Augmentation (recipe {self.recipe or 'strong'}): "
            f"{self.augmentation_milliseconds:.1f} ms a batch. {e.device_name}, {e.threads} threads, "
            f"torch {e.torch}, timm {e.timm}.",
        ]
        return "\n\n".join(filter(None, blocks))

    def _encodings_table(self) -> str:
        head = "model|ms a step|quartiles|÷ none|images/s|augmented|share of peak|parameters"
        rows = (
            [
                *_step_cells(t),
                "" if t.images_per_second_augmented is None else f"{t.images_per_second_augmented:,.0f}",
                f"{100 * t.share_of_peak:.0f} %",
                f"{t.parameters:,}",
            ]
            for t in self.encodings
        )
        return _table(head, rows)

    def _alone_table(self) -> str:
        rows = []
        for a in self.alone:
            mode = "compiled" if a.compiled else "eager"
            rows.append([a.encoding, a.other, mode, f"{a.ours:.3f}", f"{a.theirs:.3f}", f"{a.ratio:.2f}"])
        return _table("q and k alone|beside|mode|ms|theirs|ours ÷ theirs", rows, left=(0, 1, 2))

    def _variants_table(self) -> str:
        rows = []
        for v in self.variants:
            expected = f"{v.expected[0]:g} to {v.expected[1]:g}" if v.expected else ""
            ms, gain = (f"{v.milliseconds:.1f}", f"{v.gain:.2f}") if v.gain else ("", v.missing)
            rows.append([v.name, v.of, ms, v.against, expected, gain])
        return _table("variant|of|ms|times as fast as|expected|measured", rows, left=(0, 1, 3))

    def _scaling_table(self) -> str:
        counts = sorted({s.patches for s in self.scaling})
        cells = {(s.encoding, s.patches): f"{1000 * s.median / s.batch:.0f}" for s in self.scaling}
        names = dict.fromkeys(s.encoding for s in self.scaling)
        rows = [[f"`{name}`", *(cells.get((name, count), "") for count in counts)] for name in names]
        return _table("|".join(["µs an image by patches", *map(str, counts)]), rows)

    def write(self, folder: str | Path) -> Path:
        """Write JSON and Markdown into ``folder``, named by device, model and start; returns the JSON.

        Profiles are written beside them, as ``<name>-profile-<encoding>.txt``.
        """
        stamp = datetime.fromisoformat(self.provenance.started).strftime("%Y-%m-%dT%H%M")
        mode = "compiled" if self.compiled else "eager"
        path = Path(folder) / f"{self.environment.device.partition(':')[0]}-{self.size}-{mode}-{stamp}.json"
        write_atomically(path, self.model_dump_json(indent=1).encode())
        write_atomically(path.with_suffix(".md"), (self.to_markdown() + "\n").encode())
        for encoding, table in self.profiles.items():
            write_atomically(path.with_name(f"{path.stem}-profile-{encoding}.txt"), (table + "\n").encode())
        return path


def _step_cells(t: Timing) -> list[str]:
    quartiles = f"{t.low:.1f} to {t.high:.1f}"
    return [f"`{t.name}`", f"{t.median:.1f}", quartiles, f"{t.ratio:.3f}", f"{t.images_per_second:,.0f}"]


def _timm_table(title: str, timings: list[Timing]) -> str:
    return _table(f"{title}|ms a step|quartiles|timm ÷ ours|images/s", map(_step_cells, timings))


def _table(head: str, rows: Iterable[list[str]], left: Collection[int] = (0,)) -> str:
    """A table in Markdown; "" without rows. left: columns aligned left, the others are aligned right."""
    columns = head.split("|")
    rule = [":--" if i in left else "--:" for i in range(len(columns))]
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows)]
    return "\n".join(lines) if len(lines) > 2 else ""


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
