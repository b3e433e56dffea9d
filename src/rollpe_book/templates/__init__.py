"""HTML from templates: pages of one file each, which need no network, and parts of the book's pages.

page.html is the frame of a page and its style, table.html a table; head.html and links.html serve the book.
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
