"""Every recipe of the page "Use the encodings" runs as it is printed, also from the built wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile

import pytest

from shared import ROOT, workflow_script

OUTSIDE = workflow_script("outside")
PAGE = OUTSIDE.PAGE.read_text(encoding="utf8")
RECIPES = OUTSIDE.recipes(PAGE)
MOST = 88

pytestmark = pytest.mark.usefixtures("known_encodings_are_put_back")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
@pytest.mark.filterwarnings("error::UserWarning:rollpe")
def test_every_recipe_runs_as_it_is_printed(recipe):
    for package in recipe.needs:
        pytest.importorskip(package)
    exec(compile(recipe.code, recipe.title, "exec"), {"__name__": "recipe"})


def test_the_lines_in_the_readme_run():
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    made = {}
    exec(compile(code, "README.md", "exec"), made)
    assert made["model"].blocks[0].attn.encoding.name == "roll"
    assert made["layer"].self_attn.encoding.name == "rope"


def test_the_table_lists_every_section_and_nothing_else():
    rows = [line.split("](#")[0].removeprefix("| [") for line in PAGE.splitlines() if line.startswith("| [")]
    assert (
        rows
        == [recipe.title for recipe in RECIPES]
        == [line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")]
    )
    assert PAGE.count("```python\n") == len(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_recipe_imports_what_the_table_says_and_fits_the_page(recipe):
    nodes = list(ast.walk(ast.parse(recipe.code)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    roots = {name.partition(".")[0] for name in names} - {"torch", "rollpe"}
    assert roots <= set(recipe.needs) and bool(roots) == bool(recipe.needs)
    assert max(map(len, recipe.code.splitlines())) <= MOST


def test_the_wheel_holds_all_that_recipes_need_where_the_repository_is_not(tmp_path):
    wheel = OUTSIDE.build(tmp_path / "wheel", isolated=False)
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    alone = [recipe.code for recipe in RECIPES if not recipe.needs][:2]
    first = "import sys; sys.modules |= dict.fromkeys(['timm', 'pydantic', 'transformers'])\n"
    last = "import rollpe; print(rollpe.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([first, *alone, last])],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "site/rollpe/__init__.py")
    assert str(ROOT) not in done.stderr
