"""The small pages stand alone: whole, without a network, and true to the notebook that they show."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from tiny_book import STAMP

from rollpe.cli import main
from rollpe_book import templates
from rollpe_book.chapters.source import _pair_of
from rollpe_book.extension.page import notebook_page
from shared import ROOT, Outline, assert_alone

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>'
SOURCE = """\
# %% [markdown]
# # A small page & more
#
# As {cite}`rollpe` says, {doc}`04-rolling`.
#
# $$
# e^{i\\pi} = -1
# $$ (eq-euler)
#
# | a | b |
# | :-- | --: |
# | 1 | 2 |

# %% tags=["parameters"]
n: int = 3  # how many [1..10]
kind: str = "a<b"  # the shape

# %% tags=["hide-input"]
n
"""


def project(root):
    """A project whose only notebook is small."""
    (root / "notebooks").mkdir(parents=True)
    shutil.copytree(ROOT / "book/_static", root / "book/_static")
    for name in ("_config.yml", "pyproject.toml", "requirements.lock", "book/references.bib"):
        shutil.copy(ROOT / name, root / name)
    (root / "notebooks/01-small.py").write_text(SOURCE)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A page of a notebook that ran with n=4; the notebook is stamped by hand, no kernel is needed."""
    root = project(tmp_path_factory.mktemp("pages") / "project")
    shutil.copy(ROOT / "notebooks/04-rolling.py", root / "notebooks")
    source = root / "notebooks/01-small.py"
    notebook = _pair_of(source)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    picture = {"image/svg+xml": SVG, "text/plain": "a circle"}
    code[1].outputs = [nbformat.v4.new_output("display_data", picture)]
    code[1].metadata["mystnb"] = {"image": {"alt": "A circle"}, "figure": {"caption": "A circle."}}
    given = {"notebook": "notebooks/01-small.py", "parameters": {"n": 4, "kind": "a<b"}, "changed": {"n": 4}}
    notebook.metadata["rollpe"] = (
        STAMP | given | dict.fromkeys(("source", "package", "lock"), "0123456789abcdef")
    )
    executed = root / "_build/runs/01-small-abc/01-small.ipynb"
    executed.parent.mkdir(parents=True)
    nbformat.write(notebook, executed)
    return notebook_page(executed, root)


def test_the_page_stands_alone_beside_the_run_and_nothing_else_is_left(made):
    assert sorted(p.name for p in made.parent.iterdir()) == ["01-small.html", "01-small.ipynb"]
    assert_alone(made.read_text())


def test_the_top_says_what_was_changed_and_what_the_run_came_from(made):
    text = made.read_text()
    assert "<title>A small page &amp; more (n=4)</title>" in text
    top = text[text.index("<h1>") : text.index("<p>As ")]
    number = '<td class="number">'
    assert f'<th scope="row">n</th>{number}4</td>{number}3</td><td>how many</td>' in top
    assert top.count('<th scope="col" class="number">') == 2, "numbers stand right, words do not"
    assert "written for the defaults" in top and "All parameters" not in top
    assert top.index("how many") < top.index("<details") < top.index("the shape")
    for word in ("a processor", "2026-01-02 03:04", "python 3.11.7", "0123456789", "-p n 4"):
        assert word in top
    assert "a&lt;b" in top and "a<b" not in top
    assert "page-stamp" not in text.partition("</style>")[2], "the stamp stands once"


def test_mathematics_roles_links_and_figures_are_rendered(made):
    body = made.read_text().partition("<body>")[2]
    assert re.search(r'<div class="math notranslate nohighlight"[^>]*id="equation-eq-euler"', body)
    title = re.search("^# # (.+)$", (ROOT / "notebooks/04-rolling.py").read_text(), re.MULTILINE).group(1)
    assert f"<em>{title}</em>" in body
    assert "04-rolling" not in body, "a link that leads nowhere shows the title of its page"
    assert "{cite}" not in body
    (image,), (dark,) = Outline(body).all("img"), Outline(body).all("source")
    assert dark["media"] == "(prefers-color-scheme: dark)" and dark["srcset"].startswith("data:image/svg+xml")
    kind, _, data = image["src"].partition(";base64,")
    assert kind == "data:image/svg+xml" and b"<circle" in base64.b64decode(data)
    assert image["alt"] == "A circle"


def test_mathjax_lies_in_the_page_only_if_there_is_mathematics(made):
    assert "window.MathJax" in made.read_text() and made.stat().st_size > 1_000_000
    notebook = nbformat.read(made.with_suffix(".ipynb"), as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "$$" not in cell.source]
    plain = made.parents[1] / "plain/plain.ipynb"
    plain.parent.mkdir()
    nbformat.write(notebook, plain)
    text = notebook_page(plain, made.parents[3]).read_text()
    assert "MathJax" not in text and "<h1>plain</h1>" in text, "and a page without a title has its file's"


def test_a_script_cannot_end_early_and_a_title_is_text():
    values = {"changes": "", "style": "", "heading": "", "rest": "", "stamp": {}}
    text = templates.render("notebook.html", title="a < b", scripts=["s = '</script>'"], **values)
    assert text.count("</script>") == 1 and "<title>a &lt; b</title>" in text and "<h1>a &lt; b</h1>" in text


def test_the_command_writes_the_page_says_where_and_leaves_the_book_alone(tmp_path):
    root = project(tmp_path / "project")
    words = [sys.executable, "-m", "rollpe.cli", "notebook", "notebooks/01-small.py", "-p", "n", "7"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    executed, page, command = done.stdout.splitlines()
    file = root / page.split()[1]
    assert file.is_file() and page.endswith("(n=7)") and str(file.as_uri()) in command
    assert file.with_suffix(".ipynb") == root / executed.split()[1]
    assert not (root / "book/executed").exists()
    assert_alone(file.read_text())


def test_without_the_books_tools_the_run_stays_and_one_line_says_the_way_out(made, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jupyter_book.config", None)
    monkeypatch.delitem(sys.modules, "rollpe_book.extension.page")
    executed = made.with_suffix(".ipynb")
    monkeypatch.setattr("rollpe_book.chapters.run", lambda *args, **options: executed)
    main(["notebook", str(made.parents[3] / "notebooks/01-small.py")])
    out, err = capsys.readouterr()
    assert out == f"executed  {executed}\n"
    assert err == "rollpe: no page: jupyter_book.config is not installed. Repair: pip install -e '.[book]'.\n"
