"""The picture of how the library is built: ``{rooms}`` draws which room imports which.

Here: the imports between rooms, and their drawing in the layers of pyproject.toml. Not here: what each room
is for (book/architecture.md), and which files a piece of code depends on (rollpe.sources).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rollpe.book.site import project_root
from rollpe.errors import InputError
from rollpe.sources import PACKAGE, module_files

WIDTH, HEIGHT, GAP = 340, 24, 28  # of the picture, of a box, between two layers

Place = tuple[str, int]
"""A room and a layer: the room's box in its own layer; in a layer above, the line of all arrows to it."""


def imports_between(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Room → the rooms that it imports, without those that it reaches through another: the fewest arrows.

    A room is a module or a folder of the package. Rooms that import one another are an InputError.
    """
    rooms = {path.stem for path in package.glob("[!_]*.py")}
    rooms |= {path.parent.name for path in package.glob("*/__init__.py")}
    below: dict[str, set[str]] = {}
    for room in sorted(rooms):
        inside = [file.relative_to(package).with_suffix("").parts for file in (package / room).rglob("*.py")]
        names = [".".join((package.name, *parts)) for parts in [(room,), *inside]]
        files = module_files(*names, package=package)
        below[room] = {Path(file.relative_to(package).parts[0]).stem for file in files} & rooms - {room}
        if circle := [other for other in below if other in below[room] and room in below[other]]:
            raise InputError(f"{room} and {circle[0]} import one another: imports of rooms point one way.")
    return {room: sorted(others.difference(*(below[o] for o in others))) for room, others in below.items()}


def read_layers(pyproject: Path) -> list[list[str]]:
    """The rooms of each layer of the contract that import-linter checks, top first."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in layers]


def draw(layers: Sequence[Sequence[str]], imports: Mapping[str, Sequence[str]]) -> str:
    """The picture as SVG: a row of boxes for each layer, and an arrow down for each import.

    An import that does not point down is an InputError.
    """
    layer_of = {room: layer for layer, rooms in enumerate(layers) for room in rooms}
    starts = _starts(layer_of, imports)
    x = _across(layer_of, starts)
    lines, boxes = [], []
    for (room, layer), above in starts.items():
        here, top = x[room, layer], 1 + layer * (HEIGHT + GAP)
        for start in sorted(above):
            bend = f"C{x[start]:.1f} {top - GAP / 2} {here:.1f} {top - GAP / 2}"
            lines.append(f'<path d="M{x[start]:.1f} {top - GAP}{bend} {here:.1f} {top}"/>')
        if layer < layer_of[room]:
            lines.append(f'<path d="M{here:.1f} {top}v{HEIGHT}"/>')
            continue
        if above:
            lines.append(f'<path d="M{here - 3:.1f} {top - 6}h6l-3 5z" fill="currentColor"/>')
        box = f'x="{here - _width(room) / 2:.1f}" y="{top}" width="{_width(room):.1f}" height="{HEIGHT}"'
        boxes.append(f'<rect {box} rx="6" style="fill:var(--pst-color-surface)"/>')
        boxes.append(f'<text x="{here:.1f}" y="{top + 16}" fill="currentColor" stroke="none">{room}</text>')
    said = "; ".join(f"{room} imports {', '.join(others)}" for room, others in imports.items() if others)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rooms" role="img" aria-label="{said}" '
        f'viewBox="0 0 {WIDTH} {len(layers) * (HEIGHT + GAP) - GAP + 2}" fill="none" stroke="currentColor" '
        'style="display:block;width:100%;max-width:26rem;margin:1.5rem auto">'
        f'<g stroke-opacity="0.6">{"".join(lines)}</g>'
        f'<g font-size="12" font-family="sans-serif" text-anchor="middle">{"".join(boxes)}</g></svg>'
    )


def _starts(layer_of: Mapping[str, int], imports: Mapping[str, Sequence[str]]) -> dict[Place, set[Place]]:
    """Place → the places one layer up from which a line leads to it. Arrows to one room join on their way."""
    starts: dict[Place, set[Place]] = {place: set() for place in layer_of.items()}
    for room, others in imports.items():
        for other in others:
            if layer_of.get(room, len(layer_of)) >= layer_of.get(other, 0):
                raise InputError(f"{room} imports {other}, which is in no layer below it in pyproject.toml.")
            start = (room, layer_of[room])
            for layer in range(layer_of[room] + 1, layer_of[other] + 1):
                starts.setdefault((other, layer), set()).add(start)
                start = (other, layer)
    return starts


def _across(layer_of: Mapping[str, int], starts: Mapping[Place, set[Place]]) -> dict[Place, float]:
    """The x of every place: in each layer in the order of the mean x of their starts, evenly spaced."""
    x: dict[Place, float] = {}
    for layer in range(max(layer_of.values()) + 1):
        places = [place for place in starts if place[1] == layer]
        places.sort(key=lambda place: fmean([x[start] for start in starts[place]] or [WIDTH / 2]))
        widths = [_width(room) if layer_of[room] == layer else 2 for room, _ in places]
        space = (WIDTH - sum(widths)) / (len(places) + 1)
        for n, place in enumerate(places):
            x[place] = space * (n + 1) + sum(widths[:n]) + widths[n] / 2
    return x


def _width(room: str) -> float:
    return 6.4 * len(room) + 14  # at 12 pixels a letter takes 6.4 in the mean


class RoomsDirective(SphinxDirective):
    """``{rooms}``: the picture, drawn from the imports as they are when the page is read."""

    def run(self) -> list[nodes.Node]:
        pyproject = project_root(self.env.app) / "pyproject.toml"
        for file in (pyproject, *PACKAGE.rglob("*.py")):
            self.env.note_dependency(str(file))
        return [nodes.raw("", draw(read_layers(pyproject), imports_between()), format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("rooms", RoomsDirective)
