"""Tiny books, built in a temporary folder by the extension, and a record to show in them. Not a test."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from rollpe_lab.records import Record
from shared import make_record

STAMP = {
    "notebook": "notebooks/01-page.py",
    "parameters": {"n": 8, "loud": False, "kind": "two words"},
    "date": "2026-01-02T03:04:05+00:00",
    "seconds": 4.2,
    "device": "a processor",
    "versions": {"python": "3.11.7"},
}
"""Of a chapter that ran."""


def a_record(seed=0, right=900, encoding="roll", recipe="quick") -> Record:
    """A run with so many of 1000 test images right, and with an origin to tell."""
    record = make_record(encoding, right, seed, recipe, images=1000, epochs=12)
    origin = {
        "commit": "c0ffee" * 6,
        "dirty": False,
        "command": "rollpe train --encoding roll",
        "finished": "2026-01-02T03:05:05+00:00",
        "wall_seconds": 60,
    }
    changes = {
        "environment": record.environment.model_copy(update={"device_name": "A fast processor"}),
        "provenance": record.provenance.model_copy(update=origin),
        "test": record.test.model_copy(update={"loss": 0.25}),
        "parameters": 1234567,
        "resolutions": {"24": 0.5},
        "throughput": 1500.0,
    }
    return record.model_copy(update=changes)


class Book:
    """A book in ``root``: pages {name: text}."""

    def __init__(self, root: Path, builder: str = "html"):
        self.root, self.source, self.builder = root, root / "book", builder
        self.html = root / "_build" / builder
        self.source.mkdir(exist_ok=True)

    def build(self, pages, **settings) -> str:
        """Build it and return the warnings, without colors."""
        for name, text in pages.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf8")
        warnings = io.StringIO()
        settings = {
            "extensions": ["myst_nb", "rollpe_book.extension"],
            "root_doc": next(iter(pages)).partition(".")[0],
            "html_theme": "basic",
            "myst_enable_extensions": ["dollarmath", "amsmath", "deflist"],
            "nb_execution_mode": "off",
            "numfig": True,
        } | settings
        with docutils_namespace():
            trees = self.root / "_build/trees" / self.builder
            app = Sphinx(self.source, None, self.html, trees, self.builder, settings, None, warnings)
            app.build(force_all=True)
            self.env = app.env
        return re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())

    def text(self, name: str) -> str:
        """What a page says, without markup."""
        body = (self.html / f"{name}.html").read_text().partition("<body")[2]
        return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body)))

    def markup(self, name: str) -> str:
        return (self.html / f"{name}.html").read_text()
