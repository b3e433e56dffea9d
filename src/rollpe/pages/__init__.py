"""HTML from templates: pages of one file each, which need no network, and the tags in the head of the book's.

page.html is the frame of a page with its style, table.html a table. Not here: the values that templates show
(evidence/comparison.py, book/page.py, book/head.py).
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
