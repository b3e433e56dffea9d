"""Results tables: one row an encoding, beside the paper's numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import unquote

from rollpe.names import EncodingName
from rollpe_lab.files import markdown
from rollpe_lab.records.record import Record, by_cell, check_comparable
from rollpe_lab.statistics import Printed, Summary, by_seed, summarize, welch
from rollpe_lab.training.recipe import TEXTS, load_recipe, recipes

PAPER_TABLE_1: dict[str, Printed] = {
    "learned": Printed(64.2, 0.9, 3),  # "Baseline (APE)"
    "axial-rope": Printed(72.4, 0.4, 3),
    "roll": Printed(72.1, 0.1, 3),
    "multiplexed-roll": Printed(73.4, 0.5, 3),
}
"""CIFAR-100 accuracy in percent as printed in the paper's Table 1 (arXiv 2511.11668), ViT-S.

We read ± as a standard deviation over three seeds, and the baseline "APE" as a learned table; the paper does
not say.
"""


# Records, side by side


def arms_of(records: Iterable[Record], recipe: str) -> dict[str, dict[int, Record]]:
    """The records of one recipe by encoding slug and seed, each seed once.

    The first of two records of the same cell is kept. InputError if two runs are not comparable
    (`rollpe_lab.records.record.check_comparable`).
    """
    arms: dict[str, dict[int, Record]] = {}
    of_recipe = [record for record in records if record.recipe == recipe]
    check_comparable(of_recipe)
    for record in of_recipe:
        arms.setdefault(record.run_id.slug, {}).setdefault(record.seed, record)
    return {slug: dict(sorted(arm.items())) for slug, arm in arms.items()}


LARGE = ("strong", "short@learning_rate=0.0005", "short@learning_rate=0.00025", "short")
"""Recipes of the paper's model in the order that tables prefer."""


def recipe_with_runs(records: Iterable[Record], wanted: Sequence[str]) -> str:
    """The first of the wanted recipes that has any run; the first of all if none has.

    Runs of a changed length belong to a recipe of their own, such as short@epochs=60, and are not looked for.
    """
    run = {record.recipe for record in records}
    return next((recipe for recipe in wanted if recipe in run), wanted[0])


# Table


@dataclass(frozen=True)
class Row:
    """One encoding: our measurement, and the paper's in percent; None without one."""

    slug: str
    measured: Summary | None
    printed: Printed | None

    @property
    def name(self) -> str:
        """The slug without percent-encoding: speeds=[1,1] for the folder's speeds=%5B1%2C1%5D."""
        return unquote(self.slug)


@dataclass(frozen=True)
class Table:
    """The results of one recipe, beside the paper's Table 1 where it trains on the paper's data.

    epochs: as recorded, else from the recipe's file; None without either. of_text: rows are bits per
    character, not accuracies in percent.
    """

    recipe: str
    rows: list[Row] = field(default_factory=list)
    epochs: int | None = None
    of_text: bool = False

    @property
    def measured(self) -> bool:
        """Whether there is any run."""
        return any(row.measured for row in self.rows)

    @property
    def beside_paper(self) -> bool:
        """Whether any row has a printed number."""
        return any(row.printed for row in self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The heads of the columns of ``cells``."""
        measure = "bits per character ± SD" if self.of_text else "accuracy ± SD (%)"
        ours = ("encoding", measure, "95 % interval", "n")
        return (*ours, "paper, Table 1 (%)") if self.beside_paper else ours

    def cells(self) -> list[tuple[str, ...]]:
        """The table as text. n = 1 has no SD, and n < 3 no interval."""
        rows: list[tuple[str, ...]] = []
        for r in self.rows:
            printed = f"{r.printed.mean} ± {r.printed.sd}" if r.printed else "–"
            ours = (r.name, *_measured_cells(r.measured))
            rows.append((*ours, printed) if self.beside_paper else ours)
        return rows

    def to_markdown(self) -> str:
        """A table in GitHub's Markdown."""
        return markdown([self.columns, *((f"`{name}`", *others) for name, *others in self.cells())])

    def to_csv(self) -> str:
        """Bare numbers, one to a column; an empty field where there is none."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["encoding", "mean", "sd", "low", "high", "n", "paper_mean", "paper_sd"])
        for r in self.rows:
            m, p = r.measured, r.printed
            numbers = [m.mean, m.sd, m.low, m.high] if m else [None] * 4
            writer.writerow(
                [r.name]
                + ["" if x is None else f"{x:.4f}" for x in numbers]
                + [m.n if m else 0]
                + ([p.mean, p.sd] if p else ["", ""])
            )
        return text.getvalue().rstrip("\n")

    def to_latex(self) -> str:
        """A booktabs tabular."""
        body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in (self.columns, *self.cells())]
        form = "l" + "r" * (len(self.columns) - 1)
        rows = [rf"\begin{{tabular}}{{{form}}}", r"\toprule", body[0], r"\midrule", *body[1:]]
        return "\n".join([*rows, r"\bottomrule", r"\end{tabular}"])


def _measured_cells(m: Summary | None) -> tuple[str, str, str]:
    if m is None:
        return "not measured", "–", "0"
    value = f"{m.mean:.2f}" + ("" if m.sd is None else f" ± {m.sd:.2f}")
    return value, "–" if m.low is None else f"{m.low:.2f} to {m.high:.2f}", str(m.n)


def _latex(text: str) -> str:
    return text.translate(_LATEX)


_LATEX = str.maketrans(
    {c: rf"\{c}" for c in "%_&#${}"}
    | {"±": r"$\pm$", "–": "--", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"\\": r"\textbackslash{}"}
)


def results_table(records: Sequence[Record], recipe: str) -> Table:
    """Test accuracy of every encoding under one recipe: Table 1's four, then all others measured.

    Under a recipe of text, bits per character of the encodings that are measured.

    The others come in the order of `EncodingName`, combinations after their first part, options last.
    Intervals are t-intervals over seeds. The paper's values are shown for CIFAR-100 only.
    """
    arms = arms_of(records, recipe)
    order = {name: index for index, name in enumerate(get_args(EncodingName))}
    data = _setting(arms, recipe, "data") or _setting({}, recipe.partition("@")[0], "data")
    printed = PAPER_TABLE_1 if data == "cifar100" else {}

    def rank(slug: str) -> tuple[int, str]:
        return order.get(slug.partition("@")[0].partition("+")[0], len(order)), slug

    first = () if data in TEXTS else tuple(PAPER_TABLE_1)
    slugs = [*first, *sorted(arms.keys() - set(first), key=rank)]
    rows = [
        Row(
            slug,
            summarize([r.score for r in arms[slug].values()]) if slug in arms else None,
            printed.get(slug),
        )
        for slug in slugs
    ]
    return Table(recipe, rows, _setting(arms, recipe, "epochs"), data in TEXTS)


def _setting(arms: dict[str, dict[int, Record]], recipe: str, key: str) -> Any:
    """A key of a recipe: as recorded, else from the recipe's file; None without either."""
    known = load_recipe(recipe).model_dump() if recipe in recipes() else {}
    recorded = (r.config[key] for arm in arms.values() for r in arm.values() if key in r.config)
    return next(recorded, known.get(key))


# The lead over a learned table

LEADING = {
    "axial-rope": "RoPE",
    "roll": "RollPE",
    "multiplexed-roll": "multiplexed RollPE",
    "learned@every_block=true": "table, every block",
}
"""Encodings whose lead over a learned table the book draws, and their words."""
_BEST = dict.fromkeys(("learned", *LEADING), "short@learning_rate=0.0005")
_BEST["multiplexed-roll"] = "short@learning_rate=0.00025"
SOURCES = {
    "here, the paper's model, 50 epochs": {slug: f"{recipe}/{slug}" for slug, recipe in _BEST.items()},
    "here, 96 channels, 10 epochs": {slug: f"mini-paper/{slug}" for slug in _BEST},
}
"""The arms that a lead is taken from, by source and encoding."""


def leads(records: Iterable[Record]) -> dict[str, dict[str, Summary]]:
    """Points of accuracy ahead of a learned table, by source and encoding; what is not measured is left out.

    The paper's interval is Welch's, from what Table 1 prints. Ours are over pairs of runs of one seed: in the
    paper's model each encoding at its best rate of three, the table before every block of two; in the narrow
    one all at one rate.
    """
    cells = {arm: {run.seed: run.score for run in runs} for arm, runs in by_cell(records).items()}
    table = PAPER_TABLE_1["learned"]
    printed = {slug: welch(PAPER_TABLE_1[slug], table) for slug in LEADING if slug in PAPER_TABLE_1}
    found = {"paper": {s: Summary(w.difference, None, table.n, w.low, w.high) for s, w in printed.items()}}
    for source, arms in SOURCES.items():
        of = {slug: cells.get(arm, {}) for slug, arm in arms.items()}
        gaps = {slug: by_seed(of[slug], of["learned"]) for slug in LEADING}
        found[source] = {slug: summarize(gap) for slug, gap in gaps.items() if gap}
    return found
