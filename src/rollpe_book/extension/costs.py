"""What runs cost: ``{costs}`` as a table, ``{gpu-hours}`` in a sentence, computed from sizes."""

from __future__ import annotations

from functools import cache

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rollpe.vit import create_vit
from rollpe_book.extension.site import plain_table
from rollpe_lab.training.datasets import DATASETS
from rollpe_lab.training.recipe import Recipe, load_recipe

SHARES = (0.1, 0.2, 0.4)
"""Shares of a device's peak for which costs are tabulated."""
PEAK = 1000
"""TFLOP/s of the device that the table assumes: a round number."""


@cache
def training_flops(size: str, image: int, patch: int, classes: int, pool: str) -> int:
    """Floating-point operations of one training image, counted: forward and backward, without encoding.

    Attention is spelled out as matrix products: not every torch counts its fused kernels.
    """
    model = create_vit("none", image_size=image, patch_size=patch, classes=classes, size=size, pool=pool)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(torch.zeros(1, 3, image, image)).sum().backward()
    return counter.get_total_flops()


def work(recipe: Recipe) -> tuple[float, int]:
    """GFLOP of one training image, and training images, of a recipe on CIFAR-100."""
    flops = training_flops(recipe.size, 32, recipe.patch_size, 100, recipe.pool) / 1e9
    held_out = DATASETS["cifar100"].held_out if recipe.held_out is None else recipe.held_out
    return flops, recipe.epochs * (50_000 - held_out)


class CostsDirective(SphinxDirective):
    """``{costs} strong paper``: hours of a run by share of peak."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        rows = []
        for name in self.arguments[0].split():
            gflop, images = work(load_recipe(name))
            total = gflop * images / 1e6  # PFLOP
            hours = (f"{total / (PEAK / 1000 * share) / 3600:.2f}" for share in SHARES)
            rows.append((name, f"{gflop:.2f}", f"{images / 1e6:.2f} million", f"{total:,.0f}", *hours))
        shares = (f"hours at {100 * share:.0f} %" for share in SHARES)
        columns = ("recipe", "GFLOP an image", "training images", "PFLOP a run", *shares)
        caption = f"Computed, not measured: one run, and its hours at a share of a peak of {PEAK} TFLOP/s."
        return [plain_table(columns, rows, "costs", [nodes.Text(caption)])]


class GpuHoursRole(SphinxRole):
    """``{gpu-hours}`strong 12` ``: GPU-hours of so many runs, at the table's shares of a peak."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name, _, runs = self.text.strip().partition(" ")
        gflop, images = work(load_recipe(name))
        teraflop = gflop * images * int(runs) / 1e3
        low, high = (teraflop / PEAK / share / 3600 for share in (SHARES[-1], SHARES[0]))
        text = f"{low:.1f} to {high:.1f} GPU-hours at a peak of {PEAK} TFLOP/s"
        return [nodes.inline("", text)], []


def setup(app: Sphinx) -> None:
    app.add_directive("costs", CostsDirective)
    app.add_role("gpu-hours", GpuHoursRole())
