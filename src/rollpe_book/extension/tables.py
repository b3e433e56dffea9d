"""What the build computes for tables: ``{encodings}``, ``{speeds}``, ``{costs}``; and ``{gpu-hours}``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rollpe_book.extension.numbers import NOT_MEASURED
from rollpe_book.extension.site import find_records, project_root
from rollpe_book.properties import measure_all
from rollpe_lab.bench.timing import our_model
from rollpe_lab.files import markdown
from rollpe_lab.training.datasets import DATASETS
from rollpe_lab.training.recipe import Recipe, load_recipe


class TableDirective(SphinxDirective):
    """A table that the library knows. ``:caption:`` and ``:name:`` make it a numbered one."""

    option_spec: ClassVar = {"caption": directives.unchanged, "name": directives.unchanged}

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> nodes.table:
        """Cells are MyST: the first column is text, the others are numbers or short words."""
        name = f":name: {self.options['name']}\n" if "name" in self.options else ""
        head = f"```{{table}} {self.options.get('caption', caption)}\n:class: {self.name}\n{name}"
        (table,) = self.parse_text_to_nodes(f"{head}\n{markdown([columns, *rows])}\n```")
        return table


class EncodingsDirective(TableDirective):
    """``{encodings}``: accuracy on digits, and the properties that trials find."""

    columns = ("encoding", "digits (%)", "acts on", "relative", "real p", "norms", "linear", "weights added")

    def run(self) -> list[nodes.Node]:
        word = {True: "yes", False: "no", None: "–"}
        rows = []
        for p in measure_all():
            seeds = len(find_records(project_root(self.env.app), f"quick/{p.name}"))
            reached = f"{{num}}`quick/{p.name} accuracy` ({seeds})" if seeds else NOT_MEASURED
            answers = [word[p.real_positions], word[p.keeps_norm], word[p.linear], f"{p.parameters:,}"]
            rows.append([f"`{p.name}`", reached, p.acts_on, p.relative, *answers])
        table = self.table(self.columns, rows)
        table["classes"].append("compact")
        for number in list(table.findall(lambda node: "rollpe_cell" in getattr(node, "attributes", {}))):
            reached = number.astext().removesuffix(" %")  # the unit stands in the head
            number.clear()
            number += nodes.Text(reached)
        return [table]


TIMED = ("none", "axial-rope", "roll")


class SpeedsDirective(TableDirective):
    """``{speeds}``: training speed without positions, with RoPE and with RollPE, in every benchmark."""

    def run(self) -> list[nodes.Node]:
        rows = []
        for path in sorted((project_root(self.env.app) / "data/benchmarks").glob("*.json")):
            self.env.note_dependency(str(path))
            rows.append(speed_row(json.loads(path.read_text(encoding="utf8"))))
        if not rows:
            return [nodes.paragraph("", "Not measured.")]
        columns = ("measured on", *TIMED, "share of peak")
        return [self.table(columns, rows, "Training speed in images a second, from data/benchmarks.")]


def speed_row(report: dict[str, Any]) -> tuple[str, ...]:
    """One benchmark: where and how, images a second of TIMED, and the share of the device's peak reached."""
    setting = f"{report['provenance']['started'][:10]}, {report['environment']['device_name']}: "
    setting += f"{report['size']}, batch {report['batch']}"
    setting += f", {report['precision']}{', compiled' if report['compiled'] else ''}"
    timed = {timing["name"]: timing for timing in report["encodings"]}
    rates = (f"{timed[n]['images_per_second']:,.0f}" if n in timed else NOT_MEASURED for n in TIMED)
    shares = [round(100 * timed[n]["share_of_peak"]) for n in TIMED if n in timed]
    span = " to ".join(map(str, sorted({min(shares), max(shares)}))) if shares else ""
    return setting, *rates, f"{span} %" if span else NOT_MEASURED


# What runs cost, computed from sizes

SHARES = (0.1, 0.2, 0.4)
"""Shares of a device's peak for which costs are tabulated."""
PEAK = 1000
"""TFLOP/s of the device that the table assumes: a round number."""


def training_flops(recipe: Recipe) -> int:
    """Floating-point operations of one training image, counted: forward and backward, without encoding.

    Attention is spelled out as matrix products: not every torch counts its fused kernels.
    """
    model = our_model(recipe, "none")
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(torch.zeros(1, 3, 32, 32)).sum().backward()
    return counter.get_total_flops()


def work(name: str) -> tuple[float, int]:
    """GFLOP of one training image, and training images, of a recipe on CIFAR-100."""
    recipe = load_recipe(name)
    held_out = DATASETS["cifar100"].held_out if recipe.held_out is None else recipe.held_out
    return training_flops(recipe) / 1e9, recipe.epochs * (50_000 - held_out)


def hours(gflop: float, share: float) -> float:
    """Of a device that reaches a share of PEAK."""
    return gflop / (1000 * PEAK * share) / 3600


class CostsDirective(TableDirective):
    """``{costs} strong paper``: hours of a run by share of peak."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        rows = []
        for name in self.arguments[0].split():
            gflop, images = work(name)
            total = gflop * images
            spent = (f"{hours(total, share):.2f}" for share in SHARES)
            rows.append((name, f"{gflop:.2f}", f"{images / 1e6:.2f} million", f"{total / 1e6:,.0f}", *spent))
        shares = (f"hours at {100 * share:.0f} %" for share in SHARES)
        columns = ("recipe", "GFLOP an image", "training images", "PFLOP a run", *shares)
        caption = f"Computed, not measured: one run, and its hours at a share of a peak of {PEAK} TFLOP/s."
        return [self.table(columns, rows, caption)]


class GpuHoursRole(SphinxRole):
    """``{gpu-hours}`strong 12` ``: GPU-hours of so many runs, at the table's shares of a peak."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name, runs = self.text.split()
        gflop, images = work(name)
        low, high = (hours(gflop * images * int(runs), share) for share in (SHARES[-1], SHARES[0]))
        return [nodes.Text(f"{low:.1f} to {high:.1f} GPU-hours at a peak of {PEAK} TFLOP/s")], []


def setup(app: Sphinx) -> None:
    app.add_directive("encodings", EncodingsDirective)
    app.add_directive("speeds", SpeedsDirective)
    app.add_directive("costs", CostsDirective)
    app.add_role("gpu-hours", GpuHoursRole())
