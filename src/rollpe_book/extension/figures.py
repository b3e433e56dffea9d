"""The lines under a figure of the book, and its twin for dark pages.

A figure that a notebook's cell made gets links to its numbers (CSV), to the cell and to the records of its
runs, and the command that makes it again. Every SVG gets a twin in the colors of a dark page. Books of one
file keep the command alone, because they have nowhere to link to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

from rollpe_book.chapters.stamp import command
from rollpe_book.extension.site import enclosing_output, is_site
from rollpe_book.figures.theme import to_dark

RecordPage = Callable[[str], str | None]
DATA = "figures"
"""The folder of the site that holds the tables."""


def add_twins(app: Sphinx, doctree: nodes.document) -> None:
    """Put a dark copy beside each SVG that a cell or the build drew, before Sphinx collects the images."""
    for image in list(doctree.findall(nodes.image)):
        if enclosing_output(image) is None and not {"wave-still", "drawing"} & set(image["classes"]):
            continue
        name = image["uri"].removesuffix(".svg").removesuffix(".*")
        light = Path(app.env.relfn2path(f"{name}.svg", app.env.docname)[1])
        if name == image["uri"] or not light.is_file():
            continue
        dark = to_dark(light.read_text(encoding="utf8"))
        light.with_name(f"{light.stem}-dark.svg").write_text(dark, encoding="utf8")
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
    return {index: [o for o in outputs if "csv" in o] for index, outputs in metadata.items()}


def name_of(app: Sphinx, docname: str, figure: nodes.figure) -> str:
    """ "figure 3.2", or "this figure" if it has no number."""
    numbers = app.env.toc_fignumbers.get(docname, {}).get("figure", {})
    number = next((numbers[i] for i in figure["ids"] if i in numbers), ())
    return f"figure {'.'.join(map(str, number))}" if number else "this figure"


def data_link(app: Sphinx, docname: str, figure: nodes.figure, csv: str, thinned: int) -> str:
    """Write the figure's table into the site and return the link to it, as HTML."""
    key = figure["ids"][0] if figure["ids"] else f"{docname.replace('/', '-')}-{figure.line or 0}"
    target = Path(app.outdir, DATA, f"{key}.csv")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(csv, encoding="utf8")
    uri = relative_uri(app.builder.get_target_uri(docname), f"{DATA}/{key}.csv")
    text = "Data (CSV)" if thinned == 1 else f"Data (CSV, one point in {thinned})"
    return _link(uri, text, f"of {name_of(app, docname, figure)}", "download")


def _link(uri: str, text: str, spoken: str, extra: str = "") -> str:
    """A link; screen readers also say ``spoken``, which names the figure."""
    hidden = f'<span class="visually-hidden"> {escape(spoken)}</span>'
    return f'<a href="{escape(uri)}" {extra}>{escape(text)}{hidden}</a>'


def tools(links: list[str]) -> nodes.raw:
    """The row of links under a figure."""
    return nodes.raw("", f'<div class="figure-tools">{" ".join(links)}</div>', format="html")


def _code_link(app: Sphinx, docname: str, figure: nodes.figure, cell: nodes.Element) -> list[str]:
    """The link to the cell, whose source becomes its target."""
    source = next(
        (n for n in cell.findall(nodes.container) if n.get("nb_element") == "cell_code_source"), None
    )
    if source is None or not figure["ids"]:
        return []
    anchor = f"code-{figure['ids'][0]}"
    source["ids"].append(anchor)
    return [_link(f"#{anchor}", "Code", f"of {name_of(app, docname, figure)}", 'class="figure-code"')]


MANY = 16
"""Most links to records under a figure that are shown at once."""


def _record_links(cells: list[str], record_page: RecordPage) -> list[str]:
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
    if len(links) > MANY:
        return [f"<details><summary>Records of {len(links)} arms</summary>{listed}</details>"]
    return [f"<span>Records: {listed}</span>"] if links else []


def finish_figures(
    app: Sphinx, doctree: nodes.document, docname: str, stamp: dict[str, Any], record_page: RecordPage
) -> None:
    """Add the links and the command under every figure that a cell of this notebook made.

    ``record_page`` gives the address of the entry for the runs of recipe/encoding, None without records.
    """
    _frame_twins(app, doctree)
    if not stamp:
        return
    outputs = outputs_of(Path(app.env.doc2path(docname)))
    for figure in list(doctree.findall(nodes.figure)):
        output = enclosing_output(figure)
        if output is None:
            continue
        cell = output.parent
        while cell is not None and cell.get("nb_element") != "cell_code":
            cell = cell.parent
        legend = nodes.legend()
        if is_site(app) and cell is not None:
            code = _code_link(app, docname, figure, cell)
            if of_cell := outputs.get(cell["cell_index"]):
                metadata = of_cell.pop(0)
                data = data_link(app, docname, figure, metadata["csv"], metadata["thinned"])
                legend += tools([data, *code, *_record_links(metadata["records"], record_page)])
            elif code:
                legend += tools(code)
        text = command(stamp)
        line = nodes.paragraph("", "Make it again: ", nodes.literal(text, text), classes=["figure-command"])
        legend += line
        figure += legend


def finish_drawings(app: Sphinx, doctree: nodes.document, docname: str, record_page: RecordPage) -> None:
    """Add the links to numbers and records under every figure of a site that the build drew."""
    for figure in list(doctree.findall(nodes.figure)) if is_site(app) else []:
        if metadata := figure.get("rollpe_drawing"):
            data = data_link(app, docname, figure, metadata["csv"], metadata["thinned"])
            figure += nodes.legend("", tools([data, *_record_links(metadata["records"], record_page)]))


def finish_waves(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add the links under every moving figure of a site: the numbers of its still, the code of both."""
    for figure in list(doctree.findall(nodes.figure)):
        still = next(figure.findall(addnodes.desc), None)
        if still is None:
            continue
        figure.remove(still)
        if not is_site(app):
            continue
        stage = next(raw for raw in figure.findall(nodes.raw) if "wave" in raw)
        code = next(still.findall(nodes.reference))["refuri"]  # which sphinx.ext.viewcode has put there
        of = f"of {name_of(app, docname, figure)}"
        csv = Path(app.doctreedir, "waves", f"wave-{stage['wave']}.csv").read_text(encoding="utf8")
        script = f"_static/source/figures/{stage['wave']}.js"
        links = [
            data_link(app, docname, figure, csv, 1),
            _link(code, "Code of the still", of),
            _link(relative_uri(app.builder.get_target_uri(docname), script), "Code of the movement", of),
        ]
        figure += nodes.legend("", tools(links), ids=still[0]["ids"])  # to which the code links back


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", add_twins, priority=400)
    app.connect("html-page-context", load_when_near)
