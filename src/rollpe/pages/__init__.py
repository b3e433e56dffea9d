"""Small HTML pages that stand alone: one file each, which needs no network and no second file.

page.html is the frame and its style, table.html a table, the others a page each. Not here: the values that a
page shows (evidence/comparison.py, book/page.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.tests["numeric"] = re.compile(r"(< |[-+−])?\d[\d.,]*( |$)|–$").match


def render(template: str, **values: object) -> str:
    """A whole HTML document, as text. Values are escaped, except where the template marks them as safe."""
    return environment.get_template(template).render(values)
