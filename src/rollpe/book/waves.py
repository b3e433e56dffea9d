"""The directive that puts a moving figure on a page: ``{wave} ring`` with its caption as content.

Here: the markup, a figure with number and caption around a still picture. Sites also get an empty stage for
book/_static/widgets.js, which hides the picture when it runs. Not here: the list of waves and their pictures
(rollpe.figures.waves).
"""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from rollpe.figures.waves import WAVES, draw_still

logger = logging.getLogger(__name__)


class WaveDirective(SphinxDirective):
    """``{wave} ring``: a moving figure; ``:name:`` makes it a target, ``:moving:`` starts it at once."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged, "moving": directives.flag}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in WAVES:
            message = "wave %r is unknown: choose one of %s"
            logger.warning(message, name, ", ".join(WAVES), location=self.get_location(), type="rollpe")
            return []
        first = next(iter(self.parse_content_to_nodes()), None)
        if not isinstance(first, nodes.paragraph):
            logger.warning("wave %s has no caption", name, location=self.get_location(), type="rollpe")
            return []
        wave = WAVES[name]
        picture = draw_still(name, Path(self.env.doctreedir, "waves"))
        uri = "/" + Path(os.path.relpath(picture, self.env.srcdir)).as_posix()
        figure = nodes.figure("", classes=["wave"])
        figure += _stage(name, wave.start, "moving" in self.options)
        figure += nodes.image("", uri=uri, alt=wave.label, classes=["wave-still"])
        figure += nodes.caption("", "", *first.children)
        self.set_source_info(figure)
        self.add_name(figure)
        return [figure]


def _stage(name: str, start: dict[str, Any], moving: bool) -> nodes.raw:
    values = escape(json.dumps(start, separators=(",", ":")))
    extra = " data-moving" if moving else ""
    html = (
        f'<div class="wave-stage" data-wave="{name}" data-start="{values}"{extra}'
        f' role="group" aria-label="Moving figure: {name}" hidden></div>'
    )
    return nodes.raw("", html, format="html", wave=name)


def keep_stills(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Remove the stage from the builds that cannot move: PDF, EPUB, one page."""
    if app.builder.name not in ("html", "dirhtml"):
        for node in list(doctree.findall(nodes.raw)):
            if "wave" in node:
                node.parent.remove(node)


def setup(app: Sphinx) -> None:
    app.add_directive("wave", WaveDirective)
    app.connect("doctree-resolved", keep_stills)
