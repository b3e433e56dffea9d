"""The lines under a figure of the book, and its twin for dark pages.

A figure that a notebook's cell made gets links to the records of its runs, and the command that makes it
again. Every SVG gets a twin in the colors of a dark page. Books of one file keep the command alone, because
they have nowhere to link to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rollpe_book.chapters.gate import command
from rollpe_book.extension.site import enclosing_output, is_site
from rollpe_book.figures.theme import to_dark
from rollpe_lab.files import write_atomically

RecordPage = Callable[[str], str | None]


class FigureDirective(SphinxDirective):
    """A figure that the build draws, by name; the directive's content is its caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged}
    choices: ClassVar[Mapping[str, Any]]

    def draw(self, name: str) -> tuple[nodes.Node, dict[str, Any]]:
        """The picture, and ``records`` as in figures.show where runs have any."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in self.choices:
            raise self.error(f"{self.name} {name!r} is unknown: choose one of {', '.join(self.choices)}.")
        caption = next(iter(self.parse_content_to_nodes()), None)
        if not isinstance(caption, nodes.paragraph):
            raise self.error(f"{self.name} {name} has no caption")
        picture, metadata = self.draw(name)
        figure = nodes.figure("", picture, classes=[self.name], rollpe_drawing=metadata)
        figure += nodes.caption("", "", *caption.children)
        self.set_source_info(figure)
        self.add_name(figure)
        return [figure]


def add_twins(app: Sphinx, doctree: nodes.document) -> None:
    """Put a dark copy beside each SVG that a cell or the build drew, before Sphinx collects the images."""
    for image in list(doctree.findall(nodes.image)):
        if enclosing_output(image) is None and "drawing-still" not in image["classes"]:
            continue
        name = image["uri"].removesuffix(".svg").removesuffix(".*")
        light = Path(app.env.relfn2path(f"{name}.svg", app.env.docname)[1])
        if name == image["uri"] or not light.is_file():
            continue
        dark = to_dark(light.read_text(encoding="utf8"))
        write_atomically(light.with_name(f"{light.stem}-dark.svg"), dark.encode())
        twin = image.deepcopy()
        twin["uri"] = f"{name}-dark.svg"
        twin["classes"] += ["for-dark", "dark-light"]  # the latter exempts it from the theme's own dimming
        image.parent.insert(image.parent.index(image) + 1, twin)
        image["classes"].append("for-light")


def _frame_twins(app: Sphinx, doctree: nodes.document) -> None:
    """On a site, put a picture and its twin into a box that scrolls; elsewhere the light one stays alone."""
    for dark in list(doctree.findall(nodes.image)):
        if "for-dark" not in dark["classes"]:
            continue
        parent, place = dark.parent, dark.parent.index(dark)
        parent.remove(dark)
        if is_site(app):
            parent[place - 1] = nodes.container("", parent[place - 1], dark, classes=["figure-frame"])


def load_when_near(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Let a site's browser fetch a figure when its reader comes near, and its twin not at all.

    The place of the figure is kept free meanwhile, by its size in px.
    """
    if not (is_site(app) and context.get("body")):
        return
    sources = {name: Path(app.srcdir, source) for source, name in app.builder.images.items()}

    def lazy(tag: re.Match[str]) -> str:
        svg = sources[tag["name"]].read_text(encoding="utf8")[:2000]
        size = re.search(r'<svg\b[^>]*? width="([\d.]+)pt" height="([\d.]+)pt"', svg)
        if size is None:
            return tag[0]
        width, height = (round(float(points) * 4 / 3) for points in size.groups())
        return f'<img loading="lazy" width="{width}" height="{height}"{tag["rest"]}'

    context["body"] = re.sub(r'<img(?P<rest>[^>]*_images/(?P<name>[^"/]+\.svg)")', lazy, context["body"])


def outputs_of(executed: Path) -> dict[int, list[dict[str, Any]]]:
    """The metadata of the figures of each cell of an executed notebook (figures.show), by its index."""
    cells = json.loads(executed.read_text(encoding="utf8"))["cells"]
    metadata = {
        index: [o.get("metadata", {}).get("image/svg+xml", {}) for o in cell.get("outputs", [])]
        for index, cell in enumerate(cells)
    }
    return {index: [o for o in outputs if "records" in o] for index, outputs in metadata.items()}


def _link(uri: str, text: str, spoken: str) -> str:
    """A link; screen readers also say ``spoken``."""
    hidden = f'<span class="visually-hidden"> {escape(spoken)}</span>'
    return f'<a href="{escape(uri)}">{escape(text)}{hidden}</a>'


def _record_links(cells: list[str], record_page: RecordPage) -> str:
    """Links to the records of the runs; runs without a record in the book get none."""
    links = []
    several = len({cell.partition("/")[0].partition("@")[0] for cell in cells}) > 1
    for cell in cells:
        recipe, _, encoding = cell.partition("/")
        name, _, change = recipe.partition("@")
        if uri := record_page(cell):
            text = unquote(f"{name}: {encoding}" if several else encoding)
            text += f" ({change})" if change else ""
            links.append(_link(uri, text, f"of recipe {recipe}"))
    listed = ", ".join(links)
    if len(links) > 7:
        return f"<details><summary>Records of {len(links)} arms</summary>{listed}</details>"
    return f"<span>Records: {listed}</span>" if links else ""


def finish_figures(
    app: Sphinx, doctree: nodes.document, docname: str, stamp: dict[str, Any], record_page: RecordPage
) -> None:
    """Add what stands under every figure that a cell of this notebook or the build drew.

    ``record_page`` gives the address of the entry for the runs of recipe/encoding, None without records.
    """
    _frame_twins(app, doctree)
    outputs = outputs_of(Path(app.env.doc2path(docname))) if stamp else {}
    for figure in list(doctree.findall(nodes.figure)):
        metadata = figure.get("rollpe_drawing")
        legend = nodes.legend()
        output = enclosing_output(figure) if stamp else None
        if output is not None:
            cell = output.parent
            while cell is not None and cell.get("nb_element") != "cell_code":
                cell = cell.parent
            if cell is not None:
                of_cell = outputs.get(cell["cell_index"])
                metadata = of_cell.pop(0) if of_cell else None
        row = _record_links(metadata["records"], record_page) if metadata and is_site(app) else ""
        if row:
            legend += nodes.raw("", f'<div class="figure-tools">{row}</div>', format="html")
        if output is not None:
            text = command(stamp)
            again = ("Make it again: ", nodes.literal(text, text))
            legend += nodes.paragraph("", *again, classes=["figure-command"])
        if legend.children:
            figure += legend


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", add_twins, priority=400)
    app.connect("html-page-context", load_when_near)
