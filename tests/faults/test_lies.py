"""Lies in what the book is made of: somebody writes into a file after its run, and the gate refuses.

A lie here is an edit that a reader could see. One that computes the file's digest anew as well is out of
reach; see rollpe_book.chapters.stamp.gate.
"""

import copy
import json
import random
import shutil
from functools import partial

import pytest

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

# %% mystnb={"figure": {"name": "fig-two", "caption": "RollPE is behind."}}
SVG('<svg xmlns="http://www.w3.org/2000/svg"><circle r="2"/></svg>')

# %%
print(f"accuracy {61.25 + 0.14:.2f} % over {seeds} seeds of {recipe}")

# %%
assert abs(0.1 + 0.2 - 0.3) < 1e-9
print("largest error 5.6e-17")
"""
DERIVED = """\
# %% [markdown]
# # Derived

# %% tags=["parameters"]
n: int = 32  # width of the ring [4..64]

# %%
from IPython.display import Markdown

Markdown("| encoding | accuracy |\\n| :-- | --: |\\n| roll | 97.31 |\\n| none | 88.06 |")

# %%
print(f"a ring of {n} channels")

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


# Each lie changes an executed notebook in place, as `rng` draws.


def cells(notebook):
    return [cell for cell in notebook["cells"] if cell.get("outputs")]


def output(notebook, rng):
    return rng.choice(cells(notebook))["outputs"][0]


def rewrite(value, edit):
    """Every text in an output, edited; a notebook holds them as one string or as lines."""
    if isinstance(value, dict):
        return {key: rewrite(inner, edit) for key, inner in value.items()}
    if isinstance(value, list):
        return [rewrite(inner, edit) for inner in value]
    return edit(value) if isinstance(value, str) else value


def change_a_digit(notebook, rng):
    texts = [cell for cell in cells(notebook) if any(c.isdigit() for c in json.dumps(cell["outputs"][0]))]
    chosen = rng.choice(texts)["outputs"][0]
    key = "text" if "text" in chosen else "data"
    digit = rng.choice([c for c in json.dumps(chosen[key]) if c.isdigit()])
    other = rng.choice([c for c in "0123456789" if c != digit])
    chosen[key] = rewrite(chosen[key], lambda text: text.replace(digit, other))


def report_99(notebook, rng):
    output(notebook, rng).update(output_type="stream", name="stdout", text="accuracy 99.99 %\n")


def keep_one_output(notebook, rng):
    kept = rng.choice(cells(notebook))
    for cell in cells(notebook):
        cell["outputs"] = cell["outputs"] if cell is kept else []


def drop_an_output(notebook, rng):
    rng.choice(cells(notebook))["outputs"] = []


def drop_all_outputs(notebook, rng):
    for cell in cells(notebook):
        cell["outputs"] = []


def swap_outputs(notebook, rng):
    one, two = rng.sample(cells(notebook), 2)
    one["outputs"], two["outputs"] = two["outputs"], one["outputs"]


def repeat_an_output(notebook, rng):
    one, two = rng.sample(cells(notebook), 2)
    one["outputs"] = copy.deepcopy(two["outputs"])


def add_a_line(notebook, rng):
    line = {"output_type": "stream", "name": "stdout", "text": "all checks passed\n"}
    rng.choice(cells(notebook))["outputs"].append(line)


def redraw(notebook, rng):
    svg = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    output(notebook, rng).update(output_type="display_data", data={"image/svg+xml": svg}, metadata={})


def hide_a_failure(notebook, rng):
    failed = {"output_type": "error", "ename": "AssertionError", "evalue": "", "traceback": []}
    rng.choice(cells(notebook))["outputs"] = [failed]


def claim_in(tags):
    def lie(notebook, rng):
        cell = {"cell_type": "code", "id": "claim", "execution_count": 9, "source": "print('proved')"}
        cell |= {"metadata": {"tags": tags}}
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "proved\n"}]
        notebook["cells"].insert(rng.randrange(len(notebook["cells"]) + 1), cell)

    return lie


def inject_a_default(notebook, rng):
    claim_in(["injected-parameters"])(notebook, rng)
    next(c for c in notebook["cells"] if c.get("id") == "claim")["source"] = "n = 32"


def rewrite_prose(notebook, rng):
    notebook["cells"][0]["source"] = "# A theorem"


def add_prose(notebook, rng):
    prose = {"cell_type": "markdown", "id": "prose", "metadata": {}, "source": "RollPE is always better."}
    notebook["cells"].insert(rng.randrange(1, len(notebook["cells"])), prose)


def drop_a_cell(notebook, rng):
    notebook["cells"].remove(rng.choice(notebook["cells"]))


def swap_cells(notebook, rng):
    one, two = rng.sample(range(len(notebook["cells"])), 2)
    notebook["cells"][one], notebook["cells"][two] = notebook["cells"][two], notebook["cells"][one]


def recaption(notebook, rng):
    cell = rng.choice([c for c in notebook["cells"] if c["cell_type"] == "code"])
    cell["metadata"]["mystnb"] = {"figure": {"name": "fig-one", "caption": "A larger lead."}}


def hide_a_cell(notebook, rng):
    rng.choice(notebook["cells"])["metadata"]["tags"] = ["remove-cell"]


def renumber(notebook, rng):
    rng.choice(cells(notebook))["execution_count"] += 1


def stamped(**changes):
    def lie(notebook, rng):
        notebook["metadata"]["rollpe"].update(changes)

    return lie


def other_defaults(notebook, rng):
    values = notebook["metadata"]["rollpe"]["parameters"]
    name = rng.choice(sorted(values))
    values[name] = 50 if isinstance(values[name], int) else "paper"


def other_versions(notebook, rng):
    versions = notebook["metadata"]["rollpe"]["versions"]
    versions[rng.choice(sorted(versions))] = "9.9"


def other_output_below_an_old_digest(notebook, rng):
    report_99(notebook, rng)
    notebook["metadata"]["rollpe"]["digest"] = "0" * 64


def no_digest(notebook, rng):
    report_99(notebook, rng)
    del notebook["metadata"]["rollpe"]["digest"]


LIES = {
    "a digit": change_a_digit,
    "99.99": report_99,
    "one output kept": keep_one_output,
    "an output gone": drop_an_output,
    "all outputs gone": drop_all_outputs,
    "outputs swapped": swap_outputs,
    "an output twice": repeat_an_output,
    "all checks passed": add_a_line,
    "another figure": redraw,
    "a failure": hide_a_failure,
    "a claim": claim_in([]),
    "an injected claim": claim_in(["injected-parameters"]),
    "an injected default": inject_a_default,
    "another title": rewrite_prose,
    "more prose": add_prose,
    "a cell gone": drop_a_cell,
    "cells swapped": swap_cells,
    "another caption": recaption,
    "a cell hidden": hide_a_cell,
    "another order of cells": renumber,
    "a device that never was": stamped(device="NVIDIA H200"),
    "a date that never was": stamped(date="2031-01-01T00:00:00+00:00"),
    "a time that never was": stamped(seconds=0.1),
    "another library": stamped(package="0" * 64),
    "another chapter": stamped(notebook="notebooks/03-other.py"),
    "changed parameters": stamped(changed={"n": 4}),
    "other defaults": other_defaults,
    "other versions": other_versions,
    "another digest": other_output_below_an_old_digest,
    "no digest": no_digest,
}


def test_what_was_run_passes(honest):
    assert gate(honest) == []
    stamp = read_stamp(honest / "book/executed/01-measured.ipynb")
    assert "NVIDIA" in stamp["device"] or stamp["device"].endswith(", 2 threads"), "as many as torch used"


def refused(path, root, lie):
    """Whether the gate refuses the project with a lie in one of its JSON files, which is then put back."""
    before = path.read_text()
    content = json.loads(before)
    lie(content)
    assert content != json.loads(before), "a lie that changes nothing"
    path.write_text(json.dumps(content))
    reasons = gate(root)
    path.write_text(before)
    return any(path.name in reason for reason in reasons)


def test_every_lie_in_an_executed_notebook_is_refused(honest, times, tally):
    rng = random.Random(1)
    pages = sorted((honest / "book/executed").glob("*.ipynb"))
    planted = [(rng.choice(pages), lie) for _ in range(times) for lie in LIES.values()]
    caught = sum(refused(page, honest, partial(lie, rng=rng)) for page, lie in planted)
    tally("lies in executed notebooks", len(planted), caught)


def outputs_without_a_run(notebook, rng):
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    line = {"output_type": "stream", "name": "stdout", "text": "accuracy 99.99 %\n"}
    rng.choice(code)["outputs"] = [line]


def attach(notebook, rng):
    rng.choice(notebook["cells"])["attachments"] = {"a.png": {"image/png": "aGk="}}


def retitle(notebook, rng):
    notebook["metadata"]["title"] = "A theorem"


def test_every_lie_in_a_notebook_to_take_along_is_refused(honest, times, tally):
    rng = random.Random(2)
    lies = [outputs_without_a_run, rewrite_prose, add_prose, drop_a_cell, recaption] * times
    lies += [attach, retitle] * times
    pages = sorted((honest / "notebooks").glob("*.ipynb"))
    caught = sum(refused(rng.choice(pages), honest, partial(lie, rng=rng)) for lie in lies)
    tally("lies in notebooks to take along", len(lies), caught)


def no_error(report, rng):
    checked = [entry for entry in report["equations"] if entry.get("error")]
    rng.choice(checked)["error"] = 0.0


def wider_tolerance(report, rng):
    checked = [entry for entry in report["equations"] if "tolerance" in entry]
    rng.choice(checked)["tolerance"] = 1.0


def more_cases(report, rng):
    checked = [entry for entry in report["equations"] if "cases" in entry]
    rng.choice(checked)["cases"] = 10**6


def another_reason(report, rng):
    unchecked = [entry for entry in report["equations"] if "reason" in entry]
    rng.choice(unchecked)["reason"] = "It is obvious."


def drop_an_equation(report, rng):
    report["equations"].remove(rng.choice(report["equations"]))


def other_sources(report, rng):
    report["source_hash"] = f"{rng.getrandbits(256):064x}"


def test_every_lie_in_the_report_of_checks_is_refused(honest, times, tally):
    rng = random.Random(3)
    lies = [no_error, wider_tolerance, more_cases, another_reason, drop_an_equation, other_sources] * times
    report = honest / "_build/equations.json"
    caught = sum(refused(report, honest, partial(lie, rng=rng)) for lie in lies)
    tally("lies in the report of checks", len(lies), caught)


def test_an_exchange_of_whole_chapters_is_refused(honest, tmp_path):
    root = shutil.copytree(honest, tmp_path / "project")
    one, two = sorted((root / "book/executed").glob("*.ipynb"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert len(gate(root)) >= 2
