"""What stands under a figure of the book, and its twins for dark pages and for telephones.

A figure that a notebook's cell made gets links to its numbers (CSV), to the cell, and to the records of the
runs that it shows, and the command that makes it again. Every SVG of a figure gets a twin in the colors of a
dark page, and each of the two the narrow one that the notebook made along with it. Here: only what concerns
figures that are already drawn. Not here: drawing (rollpe.figures), setting them anew (rollpe.figures.narrow),
reading numbers off them (rollpe.figures.data, when the notebook runs), buttons (book/_static/figures.js).

Sites get all of this; books of one file keep the command alone, because they have nowhere to link to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

from rollpe.book.site import enclosing_output, is_site
from rollpe.figures.theme import to_dark
from rollpe.notebooks.stamp import command

RecordPage = Callable[[str], str | None]
DATA = "figures"
"""The folder of the site that holds the tables."""


# ---------------------------------------------------------------------------- light and dark, wide and narrow

PHONE = "(max-width: 600px)"
"""Where the narrow twin stands for the figure; figures.css and book.css name the same width."""


def add_twins(app: Sphinx, doctree: nodes.document) -> None:
    """Put a dark copy, and narrow ones of both, beside each SVG that a cell or a wave drew.

    Runs before Sphinx collects the images.
    """
    narrow = _narrow_twins(Path(app.env.doc2path(app.env.docname)))
    for image in list(doctree.findall(nodes.image)):
        if enclosing_output(image) is None and "wave-still" not in image["classes"]:
            continue
        name = image["uri"].removesuffix(".svg").removesuffix(".*")
        _, drawn = app.env.relfn2path(f"{name}.svg", app.env.docname)
        if name == image["uri"] or not Path(drawn).is_file():
            continue
        svg = Path(drawn).read_text(encoding="utf8")
        twins = {"-dark": to_dark(svg)}
        if other := narrow.get(_normal(svg)):
            twins |= {"-narrow": other, "-narrow-dark": to_dark(other)}
        place = image.parent.index(image) + 1
        for ending, text in reversed(twins.items()):
            Path(drawn).with_name(f"{Path(drawn).stem}{ending}.svg").write_text(text, encoding="utf8")
            twin = image.deepcopy()
            twin["uri"] = f"{name}{ending}.svg"
            if ending.endswith("dark"):
                twin["classes"] += ["for-dark", "dark-light"]  # this exempts it from the theme's own dimming
            else:
                twin["classes"].append("for-light")
            if ending.startswith("-narrow"):
                twin["classes"].append("narrow")
            image.parent.insert(place, twin)
        image["classes"].append("for-light")


def _normal(svg: str) -> str:
    return "\n".join(svg.split())


def _narrow_twins(notebook: Path) -> dict[str, str]:
    """The narrow twin of each figure of an executed notebook, by the figure; {} for another page."""
    if notebook.suffix != ".ipynb":
        return {}
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    twins = {}
    for output in outputs:
        if twin := output.get("metadata", {}).get("image/svg+xml", {}).get("narrow"):
            twins[_normal("".join(output["data"]["image/svg+xml"]))] = twin
    return twins


def _arrange_twins(app: Sphinx, doctree: nodes.document) -> None:
    """On a site, put a picture and its twins into one frame; elsewhere the light one stays alone."""
    for dark in list(doctree.findall(nodes.image)):
        if "for-dark" not in dark["classes"] or "narrow" in dark["classes"]:
            continue
        parent, place = dark.parent, dark.parent.index(dark)
        others = [node for node in parent[place + 1 : place + 3] if "narrow" in node.get("classes", [])]
        for twin in (dark, *others):
            parent.remove(twin)
        if is_site(app):
            light = parent[place - 1]
            pairs = zip((light, dark), others or ((), ()), strict=True)
            classes = ["figure-frame", *(["has-narrow"] if others else [])]
            parent[place - 1] = nodes.container(
                "", *(n for pair in pairs for n in pair if n), classes=classes
            )


def load_when_near(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Let a site's browser fetch a figure when its reader comes near, and its twins not at all.

    The place of the figure is kept free meanwhile, by its size in px. A narrow twin becomes what a picture
    shows on a telephone.
    """
    if not (is_site(app) and context.get("body")):
        return
    drawn = {name: Path(app.srcdir, source) for source, name in app.builder.images.items()}

    def size(name: str) -> str:
        svg = drawn[name].read_text(encoding="utf8")[:2000]
        found = re.search(r'<svg\b[^>]*? width="([\d.]+)pt" height="([\d.]+)pt"', svg)
        if found is None:
            return ""
        width, height = (round(float(points) * 4 / 3) for points in found.groups())
        return f' width="{width}" height="{height}"'

    def later(tag: re.Match[str]) -> str:
        room = size(tag["name"])
        return f'<img loading="lazy"{room}{tag["rest"]}' if room else tag[0]

    def choose(tags: re.Match[str]) -> str:
        source = f'<source media="{PHONE}" srcset="{tags["narrow"]}"{size(tags["name"])}>'
        return f"<picture>{source}{tags['wide']}</picture>"

    svg = r'src="(?P<narrow>[^"]*_images/(?P<name>[^"/]+\.svg))"'
    narrow = rf'(?P<wide><img [^>]*>)\s*<img (?=[^>]*class="[^"]*\bnarrow\b)[^>]*{svg}[^>]*>'
    body = re.sub(narrow, choose, context["body"])
    context["body"] = re.sub(r'<img(?P<rest>[^>]*_images/(?P<name>[^"/]+\.svg)")', later, body)


# ----------------------------------------------------------------------------------- what stands under it


def outputs_of(executed: Path) -> dict[int, list[dict[str, Any]]]:
    """What each cell of an executed notebook said about the figures it drew (figures.show), by its index."""
    cells = json.loads(executed.read_text(encoding="utf8"))["cells"]
    about = {
        index: [o.get("metadata", {}).get("image/svg+xml", {}) for o in cell.get("outputs", [])]
        for index, cell in enumerate(cells)
    }
    return {index: [o for o in outputs if "csv" in o] for index, outputs in about.items()}


def name_of(app: Sphinx, docname: str, figure: nodes.figure) -> str:
    """ "figure 3.2", or "this figure" if it has no number."""
    known = app.env.toc_fignumbers.get(docname, {}).get("figure", {})
    number = next((known[i] for i in figure["ids"] if i in known), ())
    return f"figure {'.'.join(map(str, number))}" if number else "this figure"


def data_link(app: Sphinx, docname: str, figure: nodes.figure, csv: str, thinned: int) -> str:
    """Write the figure's table into the site and return the link to it, as HTML."""
    key = figure["ids"][0] if figure["ids"] else f"{docname.replace('/', '-')}-{figure.line or 0}"
    target = Path(app.outdir, DATA, f"{key}.csv")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(csv, encoding="utf8")
    uri = relative_uri(app.builder.get_target_uri(docname), f"{DATA}/{key}.csv")
    shown = "Data (CSV)" if thinned == 1 else f"Data (CSV, one point in {thinned})"
    return _link(uri, shown, f"of {name_of(app, docname, figure)}", "download")


def _link(uri: str, shown: str, spoken: str, extra: str = "") -> str:
    """A link whose visible word is followed by words for those who hear it out of its place."""
    hidden = f'<span class="visually-hidden"> {escape(spoken)}</span>'
    return f'<a href="{escape(uri)}" {extra}>{escape(shown)}{hidden}</a>'


def tools(links: list[str]) -> nodes.raw:
    """The row of links under a figure."""
    return nodes.raw("", f'<p class="figure-tools">{" ".join(links)}</p>', format="html")


def _code_link(app: Sphinx, docname: str, figure: nodes.figure, cell: nodes.Element) -> list[str]:
    """The link to the cell, which gets a target inside whatever folds it."""
    source = next(
        (n for n in cell.findall(nodes.container) if n.get("nb_element") == "cell_code_source"), None
    )
    if source is None or not figure["ids"]:
        return []
    anchor = f"code-{figure['ids'][0]}"
    source["ids"].append(anchor)
    return [_link(f"#{anchor}", "Code", f"of {name_of(app, docname, figure)}", 'class="figure-code"')]


def _record_links(cells: list[str], record_page: RecordPage) -> list[str]:
    """Links to the entries of the runs' records; what has no record in the book gets none."""
    links = []
    several = len({cell.partition("/")[0].partition("@")[0] for cell in cells}) > 1
    for cell in cells:
        recipe, _, encoding = cell.partition("/")
        name, _, change = recipe.partition("@")
        if uri := record_page(cell):
            text = f"{name}: {encoding}" if several else encoding
            text += f" ({change})" if change else ""
            links.append(_link(uri, text, f"of recipe {recipe}"))
    return [f"<span>Records: {', '.join(links)}</span>"] if links else []


def finish_figures(
    app: Sphinx, doctree: nodes.document, docname: str, stamp: dict[str, Any], record_page: RecordPage
) -> None:
    """Add the links and the command under every figure that a cell of this notebook made.

    ``record_page`` gives the address of the entry for the runs of recipe/encoding, None without records.
    """
    _arrange_twins(app, doctree)
    if not stamp:
        return
    about = outputs_of(Path(app.env.doc2path(docname)))
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
            if waiting := about.get(cell["cell_index"]):
                shown = waiting.pop(0)
                data = data_link(app, docname, figure, shown["csv"], shown["thinned"])
                legend += tools([data, *code, *_record_links(shown["records"], record_page)])
            elif code:
                legend += tools(code)
        text = command(stamp)
        line = nodes.paragraph("", "Make it again: ", nodes.literal(text, text), classes=["figure-command"])
        legend += line
        figure += legend


def finish_waves(
    app: Sphinx, doctree: nodes.document, docname: str, source: Callable[[str], str | None]
) -> None:
    """Add the links under every moving figure of a site: what its still shows, and the code of both.

    ``source`` gives the address of the code that draws the still of a wave.
    """
    for figure in list(doctree.findall(nodes.figure)) if is_site(app) else []:
        stage = next((raw for raw in figure.findall(nodes.raw) if "wave" in raw), None)
        if stage is None:
            continue
        of = f"of {name_of(app, docname, figure)}"
        csv = Path(app.doctreedir, "waves", f"wave-{stage['wave']}.csv").read_text(encoding="utf8")
        script = relative_uri(app.builder.get_target_uri(docname), "_static/widgets.js")
        links = [
            data_link(app, docname, figure, csv, 1),
            _link(source(stage["wave"]) or "", "Code of the still", of),
            _link(script, "Code of the movement", of),
        ]
        figure += nodes.legend("", tools(links))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", add_twins, priority=400)
    app.connect("html-page-context", load_when_near)
