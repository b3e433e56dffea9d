"""``{body} rollpe.operators.generator``: a function of the library on the page, without its docstring."""

from __future__ import annotations

import ast
import inspect
from pkgutil import resolve_name
from textwrap import dedent

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def body(function: object) -> str:
    """The source of a function or class without its decorators' and docstrings' lines."""
    source = dedent(inspect.getsource(function))  # type: ignore[arg-type]
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)  # type: ignore[operator]
    return "\n".join(line for line in lines if line.strip())


class BodyDirective(SphinxDirective):
    """The code as it runs; a name that is not there stops the build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        function = resolve_name(self.arguments[0])
        self.env.note_dependency(inspect.getsourcefile(function) or "")
        text = body(function)
        return [nodes.literal_block(text, text, language="python")]


def setup(app: Sphinx) -> None:
    app.add_directive("body", BodyDirective)
