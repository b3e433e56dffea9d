"""What a benchmark leaves behind: its measurements as plain data, its tables, its files.

Not here: measuring (timing.py, variants.py).
"""

from __future__ import annotations

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
    """Milliseconds a training step: median and quartiles over rounds.

    ratio: median, over rounds, of this step's time divided by the reference's in the same round.
    gflop: floating-point operations of one step, counted, in units of 10⁹.
    images_per_second, and the same with the recipe's augmentation, many batches ahead.
    ready_seconds: of the two steps after which everything is compiled and recorded; what an earlier run
        compiled is found on disk. Older files have the first step's alone.
    peak_memory_mib: of the model, its optimizer and its second step, where CUDA graphs are recorded.
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
    """Milliseconds a training step of one encoding at one number of patches."""

    encoding: str
    patches: int
    batch: int
    median: float


class VariantTiming(_Plain):
    """One mode to run a step, beside another: what was expected of it and what was measured.

    of: "step", or "augmentation" (of one batch). against: the name of the variant it is compared with.
    expected: from … to how many times as fast as `against`, written down before it was measured; None
        where it was measured before anybody wrote.
    gain: how many times as fast it was, images by images: median over rounds. milliseconds: median a
    call. All three are None where this machine cannot do it; missing says why.
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
    """Everything one run of the benchmark measured, on which machine, at which shape.

    recipe: whose models and steps these are; older files have strong's without drop path, and no name.
    rounds: of the encodings' timings; fewer than asked for where a budget cut them short.
    missing: models there was no time for. failed: those that broke, and the error in one line.
    profiles: tables of what the device did in a step, by encoding; `write` makes files of them.
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
    missing: list[str] = []
    failed: dict[str, str] = {}
    variants: list[VariantTiming] = []
    scaling: list[Scaling]
    profiles: dict[str, str] = Field({}, exclude=True)
    environment: Environment
    provenance: Provenance

    def to_markdown(self) -> str:
        """The tables of the benchmark, with the machine under them."""
        lines = [
            "| model | ms a step | quartiles | ÷ none | images/s | augmented | share of peak | parameters |",
            "| :-- | --: | --: | --: | --: | --: | --: | --: |",
        ]
        lines += [
            f"| `{t.name}` | {t.median:.1f} | {t.low:.1f} to {t.high:.1f} | {t.ratio:.3f} "
            f"| {t.images_per_second:,.0f} | {_count(t.images_per_second_augmented)} "
            f"| {100 * t.share_of_peak:.0f} % | {t.parameters:,} |"
            for t in self.encodings
        ]
        for title, timings in (
            ("timm's own model, our step", self.timm),
            ("timm's own model, a plain step", self.plain),
        ):
            if timings:
                lines += ["", f"| {title} | ms a step | quartiles | timm ÷ ours | images/s |"]
                lines += ["| :-- | --: | --: | --: | --: |"]
            lines += [
                f"| `{t.name}` | {t.median:.1f} | {t.low:.1f} to {t.high:.1f} | {t.ratio:.3f} "
                f"| {t.images_per_second:,.0f} |"
                for t in timings
            ]
        if self.missing:
            lines += ["", f"Not measured, no time left: {', '.join(f'`{name}`' for name in self.missing)}."]
        if self.failed:
            lines += ["", *(f"- `{name}` failed: {reason}" for name, reason in self.failed.items())]
        if self.variants:
            lines += ["", "| variant | of | ms | times as fast as | expected | measured |"]
            lines += ["| :-- | :-- | --: | :-- | --: | --: |"]
            for v in self.variants:
                expected = f"{v.expected[0]:g} to {v.expected[1]:g}" if v.expected else ""
                ms, gain = (f"{v.milliseconds:.1f}", f"{v.gain:.2f}") if v.gain else ("", v.missing)
                lines += [f"| {v.name} | {v.of} | {ms} | {v.against} | {expected} | {gain} |"]
        if self.scaling:
            counts = sorted({s.patches for s in self.scaling})
            names = list(dict.fromkeys(s.encoding for s in self.scaling))
            lines += ["", "| µs an image by patches | " + " | ".join(map(str, counts)) + " |"]
            lines += ["| :-- |" + " --: |" * len(counts)]
            for name in names:
                row = {
                    s.patches: f"{1000 * s.median / s.batch:.0f}" for s in self.scaling if s.encoding == name
                }
                lines.append(f"| `{name}` | " + " | ".join(row.get(c, "") for c in counts) + " |")
        e, mode = self.environment, "compiled" if self.compiled else "eager"
        lines += [
            "",
            f"ViT {self.size}, {self.image_size}×{self.image_size} pixels in patches of {self.patch_size}, "
            f"batch {self.batch}, {self.precision}, {mode}, {self.rounds} rounds. Largest measured matrix "
            f"product: {self.peak_gflops:,.0f} GFLOP/s. Augmentation (recipe {self.recipe or 'strong'}): "
            f"{self.augmentation_milliseconds:.1f} ms a batch. {e.device_name}, {e.threads} threads, "
            f"torch {e.torch}, timm {e.timm}.",
        ]
        return "\n".join(lines)

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


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def read_benchmarks(folder: str | Path = "data/benchmarks") -> list[Benchmark]:
    """Every committed benchmark, oldest first. Raises InputError for a file that is none."""
    found = []
    for path in Path(folder).glob("*.json"):
        try:
            found.append(Benchmark.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(f"{path}: damaged, {place}: {first['msg']}. Restore it or time anew.") from None
    return sorted(found, key=lambda b: b.provenance.started)
