"""Lies in what the book is made of: somebody writes into a file after its run, and the gate refuses.

A lie here is an edit that a reader could see. One that computes the file's digest anew as well is out of
reach; see rollpe_book.chapters.stamp.gate.
"""

import json
import random
import shutil

import pytest
from damage import changed, exchange

from rollpe_book.chapters import gate, read_stamp, run, sync
from rollpe_book.equations import run_checks, write_report

MEASURED = """\
# %% [markdown]
# # Measured

# %% tags=["parameters"]
seeds: int = 3  # how many [2..50]
recipe: str = "quick"  # which {recipes}

# %% mystnb={"figure": {"name": "fig-one", "caption": "RollPE is ahead."}}
import torch
from IPython.display import SVG

torch.set_num_threads(2)
SVG('<svg xmlns="http://www.w3.org/2000/svg"><circle r="1"/></svg>')

# %%
print(f"accuracy {61.25 + 0.14:.2f} % over {seeds} seeds of {recipe}")
"""
DERIVED = """\
# %% [markdown]
# # Derived

# %%
from IPython.display import Markdown

Markdown("| encoding | accuracy |\\n| :-- | --: |\\n| roll | 97.31 |\\n| none | 88.06 |")

# %%
print("p = 0.029 after Holm")
"""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A project of two chapters that were run, and the report of some checks."""
    root = tmp_path_factory.mktemp("lies") / "project"
    (root / "notebooks").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "requirements.lock").touch()
    (root / "book").mkdir()
    for name, text in (("01-measured", MEASURED), ("02-derived", DERIVED)):
        (root / f"notebooks/{name}.py").write_text(text)
        run(root / f"notebooks/{name}.py")
    sync(root=root)
    (root / "book/_toc.yml").write_text("- executed/01-measured\n- executed/02-derived\n")
    write_report(root / "_build/equations.json", run_checks(["eq-roll", "eq-rope-pair", "eq-attention"]))
    return root


def test_what_was_run_passes(honest):
    assert gate(honest) == []
    stamp = read_stamp(honest / "book/executed/01-measured.ipynb")
    assert "NVIDIA" in stamp["device"] or stamp["device"].endswith(", 2 threads"), "as many as torch used"


@pytest.mark.parametrize(
    ("files", "lies"),
    [("book/executed/*.ipynb", 30), ("notebooks/*.ipynb", 10), ("_build/equations.json", 10)],
)
def test_every_lie_is_refused(honest, times, tally, files, lies):
    rng, tried, caught = random.Random(files), lies * times, 0
    for _ in range(tried):
        path = rng.choice(sorted(honest.glob(files)))
        before = path.read_text()
        path.write_text(json.dumps(changed(json.loads(before), rng)))
        caught += any(path.name in reason for reason in gate(honest))
        path.write_text(before)
    tally(f"lies in {files}", tried, caught)


def test_an_exchange_of_whole_chapters_is_refused(honest, tmp_path):
    root = shutil.copytree(honest, tmp_path / "project")
    exchange(*sorted((root / "book/executed").glob("*.ipynb")))
    assert len(gate(root)) >= 2
