"""Every recipe of the page "Use the encodings" runs as it is printed, also from the built wheel."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from typing import NamedTuple

import pytest
import torch

from shared import ROOT

PAGE = (ROOT / "book/use.md").read_text(encoding="utf8")
MOST = 88


class Recipe(NamedTuple):
    """A section of the page: its title, its code, and what this imports beside torch and our package."""

    title: str
    code: str
    needs: set[str]


def recipes() -> list[Recipe]:
    """The recipes in the order of the page."""
    found = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    code = [
        (title, re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)) for title, text in found
    ]
    return [
        Recipe(title, block[1], imported(block[1]) - {"torch", "rollpe"}) for title, block in code if block
    ]


def imported(code: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(code)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


RECIPES = recipes()

pytestmark = pytest.mark.usefixtures("known_encodings_are_put_back")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
@pytest.mark.filterwarnings("error::UserWarning:rollpe")
def test_every_recipe_runs_as_it_is_printed(recipe):
    for package in recipe.needs:
        pytest.importorskip(package)
    exec(compile(recipe.code, recipe.title, "exec"), {"__name__": "recipe"})


def test_the_language_model_of_transformers_takes_every_cache_packed_rows_and_its_file(tmp_path):
    transformers = pytest.importorskip("transformers")
    (code,) = (recipe.code for recipe in RECIPES if recipe.needs == {"transformers"})
    made = {"__name__": "recipe"}
    exec(compile(code, "transformers", "exec"), made)
    model, tokens = made["model"], torch.randint(64, (2, 7))
    seen = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7])  # the first row is padded on the left
    settings = {"attention_mask": seen, "max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(tokens, use_cache=False, **settings)
    assert torch.equal(model.generate(tokens, **settings), plain)
    assert torch.equal(model.generate(tokens, cache_implementation="static", **settings), plain)
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
    packed = model(tokens[:1], position_ids=positions, use_cache=False).logits
    alone = [model(part).logits for part in tokens[:1].split((3, 4), 1)]
    assert torch.allclose(packed, torch.cat(alone, 1), atol=1e-5)
    model.save_pretrained(tmp_path)
    again = made["with_roll"](transformers.LlamaForCausalLM.from_pretrained(tmp_path))
    assert torch.allclose(again(tokens).logits, model(tokens).logits, atol=1e-5)


def test_the_lines_in_the_readme_run():
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    made = {}
    exec(compile(code, "README.md", "exec"), made)
    assert made["model"].blocks[0].attn.encoding.name == "roll"
    assert made["layer"].self_attn.encoding.name == "rope"


def test_every_section_has_one_recipe_that_fits_the_page():
    titles = [line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")]
    assert titles == [recipe.title for recipe in RECIPES] and PAGE.count("```python\n") == len(RECIPES)
    assert max(len(line) for recipe in RECIPES for line in recipe.code.splitlines()) <= MOST


def test_the_wheel_holds_all_that_recipes_need_where_the_repository_is_not(tmp_path):
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    # a copy, since an old build/ would add removed files
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, tmp_path]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (wheel,) = tmp_path.glob("*.whl")
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
