"""What a reader needs to run a chapter elsewhere, and what a run costs.

- every chapter made by a notebook offers it for download, and buttons where the address on GitHub is known;
- ``{first-cell}`` shows the cell that a machine without the library needs;
- ``{speeds}`` lists the committed measurements of speed;
- ``{costs} strong paper`` computes from sizes what runs of these recipes cost, for the reader's own prices,
  and ``{gpu-hours}`strong 12` `` in a sentence what twelve of them do;
- ``{errata}`` lists what the ledger's checks corrected or refuted.

Not here: the text of the pages (book/run.md, book/errata.md), running notebooks (notebooks.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective, SphinxRole

from rollpe.figures_ext import is_site
from rollpe.notebooks import read_stamp

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from rollpe.claims import Verdict
    from rollpe.recipes import Recipe

PLACEHOLDER = "OWNER/NAME"
GITHUB = re.compile(
    r"(?:https://(?:[^@/]+@)?github\.com/|(?:ssh://)?git@github\.com[:/])([\w.-]+/[\w.-]+?)(?:\.git)?/?"
)
SHARES = (0.1, 0.2, 0.4)
"""Shares of a device's peak for which costs are tabulated."""
PEAK = 1000
"""TFLOP/s of the device that the table assumes: a round number, to be replaced by the reader's own."""


def _root(app: Sphinx) -> Path:
    return Path(app.config.rollpe_root or Path(app.srcdir).parent).resolve()


# ------------------------------------------------------------------------------- downloads and buttons


def repository_of(address: str) -> str | None:
    """ "owner/name" of an address on GitHub, without whatever else the address holds; None for any other."""
    found = GITHUB.fullmatch(address.strip())
    return found[1] if found else None


@cache
def repository(root: Path) -> str | None:
    """ "owner/name" if the remote named origin is on GitHub, else None."""
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return repository_of(done.stdout)


def links(notebook: str, up: str, where: str | None) -> list[tuple[str, str, bool]]:
    """Label, address and whether it is a download, of ``notebooks/NN-name.py``; ``up`` leads to the root."""
    pair = notebook.removesuffix(".py") + ".ipynb"
    found = [("Notebook (.ipynb)", up + pair, True), ("Script (.py)", up + notebook, True)]
    if where is not None:
        colab = f"https://colab.research.google.com/github/{where}/blob/HEAD/{pair}"
        binder = f"https://mybinder.org/v2/gh/{where}/HEAD?labpath={pair}"
        found += [("Open in Colab", colab, False), ("Open in Binder", binder, False)]
    return found


def add_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Under the title of a chapter: its notebook for download, and where else it opens."""
    stamp = read_stamp(app.env.doc2path(docname))
    title = next(doctree.findall(nodes.title), None)
    if not stamp or title is None or not is_site(app):
        return
    here = app.builder.get_target_uri(docname)
    shown = []
    for label, address, download in links(stamp["notebook"], "../" * here.count("/"), repository(_root(app))):
        spoken = ", this chapter" if download else " (needs a first cell: see Run it yourself)"
        extra = " download" if download else ""
        hidden = f'<span class="visually-hidden">{spoken}</span>'
        shown.append(f'<a href="{escape(address)}"{extra}>{label}{hidden}</a>')
    line = nodes.raw("", f'<p class="take-along">{" · ".join(shown)}</p>', format="html")
    title.parent.insert(title.parent.index(title) + 1, line)


def copy_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Put both files of every notebook into the site, where the links look for them."""
    if exception is not None or not is_site(app):
        return
    target = Path(app.outdir, "notebooks")
    for file in sorted((_root(app) / "notebooks").glob("*.*")):
        if file.suffix in (".py", ".ipynb"):
            target.mkdir(exist_ok=True)
            shutil.copyfile(file, target / file.name)


class FirstCellDirective(SphinxDirective):
    """``{first-cell}``: what to run first in a notebook on a machine that has none of this."""

    def run(self) -> list[nodes.Node]:
        where = repository(_root(self.env.app))
        code = (
            f"!git clone --depth 1 https://github.com/{where or PLACEHOLDER} rollpe\n"
            '%cd rollpe\n%pip install --quiet ".[notebooks]"'
        )
        made: list[nodes.Node] = [nodes.literal_block(code, code, language="ipython")]
        if where is None:
            text = (
                f"{PLACEHOLDER} stands for the place of this project on GitHub. This copy of the book was "
                "built from a folder that has none, so its chapters show downloads and no buttons."
            )
            made.append(nodes.paragraph("", text))
        return made


# --------------------------------------------------------------------------------- what a run costs


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, kind: str) -> nodes.table:
    def row(cells: Sequence[str]) -> nodes.row:
        sides = ["text-left", *["text-right"] * (len(cells) - 1)]
        entries = (
            nodes.entry("", nodes.paragraph("", text), classes=[s])
            for text, s in zip(cells, sides, strict=True)
        )
        return nodes.row("", *entries)

    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in columns), cols=len(columns))
    group += nodes.thead("", row(columns))
    group += nodes.tbody("", *map(row, rows))
    return nodes.table("", nodes.title("", caption), group, classes=[kind])


TIMED = ("none", "axial-rope", "roll")


class SpeedsDirective(SphinxDirective):
    """``{speeds}``: training speed without positions, with RoPE and with RollPE, in every benchmark."""

    def run(self) -> list[nodes.Node]:
        rows = []
        for path in sorted((_root(self.env.app) / "data/benchmarks").glob("*.json")):
            self.env.note_dependency(str(path))
            rows.append(speed_row(json.loads(path.read_text(encoding="utf8"))))
        if not rows:
            return [nodes.paragraph("", "Not measured.")]
        columns = ("measured on", *TIMED, "share of peak")
        return [_table(columns, rows, "Training speed in images a second, from data/benchmarks.", "speeds")]


def speed_row(report: dict[str, Any]) -> tuple[str, ...]:
    """One benchmark: where and how, images a second of TIMED, and the share of the device's peak reached."""
    how = f"{report['environment']['device_name']}: {report['size']}, batch {report['batch']}"
    how += f", {report['precision']}{', compiled' if report['compiled'] else ''}"
    timed = {timing["name"]: timing for timing in report["encodings"]}
    rates = (f"{timed[n]['images_per_second']:,.0f}" if n in timed else "not measured" for n in TIMED)
    shares = [round(100 * timed[n]["share_of_peak"]) for n in TIMED if n in timed]
    span = " to ".join(map(str, sorted({min(shares), max(shares)}))) if shares else ""
    return how, *rates, f"{span} %" if span else "not measured"


@cache
def training_flops(size: str, image: int, patch: int, classes: int, pool: str) -> int:
    """Floating-point operations of one training image, counted: forward and backward, without encoding.

    Attention is spelled out as matrix products: not every torch counts its fused kernels.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from rollpe.vit import create_vit

    model = create_vit("none", image_size=image, patch_size=patch, classes=classes, size=size, pool=pool)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(torch.zeros(1, 3, image, image)).sum().backward()
    return counter.get_total_flops()


def work(recipe: Recipe) -> tuple[float, int]:
    """GFLOP of one training image, and training images, of a recipe on CIFAR-100."""
    from rollpe.datasets import HELD_OUT

    flops = training_flops(recipe.size, 32, recipe.patch_size, 100, recipe.pool) / 1e9
    held_out = HELD_OUT["cifar100"] if recipe.held_out is None else recipe.held_out
    return flops, recipe.epochs * (50_000 - held_out)


class CostsDirective(SphinxDirective):
    """``{costs} strong paper``: hours of a run by share of peak, and a form for the reader's numbers."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from rollpe.recipes import load_recipe

        totals: dict[str, float] = {}
        rows = []
        for name in self.arguments[0].split():
            gflop, images = work(load_recipe(name))
            totals[name] = gflop * images / 1e6  # PFLOP
            hours = (f"{totals[name] / (PEAK / 1000 * share) / 3600:.2f}" for share in SHARES)
            rows.append((name, f"{gflop:.2f}", f"{images / 1e6:.2f} million", f"{totals[name]:,.0f}", *hours))
        shares = (f"hours at {100 * share:.0f} %" for share in SHARES)
        columns = ("recipe", "GFLOP an image", "training images", "PFLOP a run", *shares)
        caption = f"Computed, not measured: one run, and its hours at a share of a peak of {PEAK} TFLOP/s."
        made: list[nodes.Node] = [_table(columns, rows, caption, "costs")]
        if is_site(self.env.app):
            made.append(nodes.raw("", _form(totals), format="html"))
        return made


class GpuHoursRole(SphinxRole):
    """``{gpu-hours}`strong 12` ``: GPU-hours of so many runs, at the table's shares of a peak."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        from rollpe.recipes import load_recipe

        name, _, runs = self.text.strip().partition(" ")
        gflop, images = work(load_recipe(name))
        teraflop = gflop * images * int(runs) / 1e3
        low, high = (teraflop / PEAK / share / 3600 for share in (SHARES[-1], SHARES[0]))
        text = f"{low:.1f} to {high:.1f} GPU-hours at a peak of {PEAK} TFLOP/s"
        return [nodes.inline("", text)], []


def _form(totals: dict[str, float]) -> str:
    """A form that book/_static/rerun.js fills in; without scripts it stays hidden."""
    options = "".join(f'<option value="{total!r}">{escape(name)}</option>' for name, total in totals.items())
    fields = (
        ("runs", "Runs", 20, 1),
        ("peak", "Peak, TFLOP/s", PEAK, 1),
        ("share", "Share of peak, %", 20, 1),
    )
    inputs = "".join(
        f'<label>{label} <input name="{name}" type="number" min="{least}" step="any" value="{value}"></label>'
        for name, label, value, least in fields
    )
    return (
        '<form class="cost-form" hidden aria-label="What your runs would cost">'
        f'<label>Recipe <select name="recipe">{options}</select></label>{inputs}'
        "<label>Price of a GPU-hour "
        '<input name="price" type="number" min="0" step="any" placeholder="yours"></label>'
        '<output aria-live="polite"></output></form>'
    )


# ----------------------------------------------------------------------------------------------- errata


class ErrataDirective(SphinxDirective):
    """``{errata} paper``: what checks corrected or refuted in one document, and what holds instead."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from rollpe.claims import sources
        from rollpe.sphinx_ext import load_report, verdicts_of

        root = _root(self.env.app)
        path = root / self.config.rollpe_equations
        report = load_report(path)
        self.env.note_dependency(str(path))
        source = self.arguments[0]
        if source not in sources():
            raise self.error(f"{source!r} is no document of the ledger: use one of {', '.join(sources())}.")
        pages = {docname.rpartition("/")[2] for docname in self.env.found_docs}
        shown = {label for label, entry in report.items() if entry.get("page") in pages}
        verdicts = verdicts_of(root, report)
        lines = list(errata(verdicts, source, shown))
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, "errata"), 0, holder)
        return holder.children


def errata(verdicts: Sequence[Verdict], source: str, shown: set[str]) -> Iterator[str]:
    """MyST lines: every sentence of a document that is wrong as written. Labels in ``shown`` become links.

    Claims that training decides are not among them: other runs than the authors' make no sentence wrong.
    """
    wrong = [
        v
        for v in verdicts
        if v.claim.source == source and v.verdict in ("corrected", "refuted") and not v.claim.takes_training
    ]
    if not wrong:
        yield "Nothing that was decided so far is wrong."
    for v in wrong:
        c = v.claim
        labels = dict.fromkeys(c.checks.labels if c.checks else ())
        checked = ", ".join(f"{{eq}}`{label}`" if label in shown else label for label in labels)
        evidence = f"Checked by {checked}." if checked else " ".join(v.grounds.split())
        yield "; ".join((c.place, *c.also))
        yield f": {' '.join(c.claim.split())}"
        yield f": **{v.verdict.capitalize()}.** {' '.join((c.instead or '').split())} *{evidence}*"
        yield ""


def setup(app: Sphinx) -> None:
    app.add_directive("first-cell", FirstCellDirective)
    app.add_directive("speeds", SpeedsDirective)
    app.add_directive("costs", CostsDirective)
    app.add_directive("errata", ErrataDirective)
    app.add_role("gpu-hours", GpuHoursRole())
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", copy_notebooks)
