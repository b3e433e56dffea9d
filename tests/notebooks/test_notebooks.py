"""Running, stamping, pairing and gating notebooks, on small projects in a temporary folder."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import jupytext
import pytest
import yaml

from rollpe.encodings import ENCODINGS, registry
from rollpe.errors import InputError
from rollpe_book import chapters as notebooks
from rollpe_book.chapters.execute import _device
from rollpe_book.chapters.parameters import Parameter, _pairs
from rollpe_book.chapters.stamp import command
from rollpe_lab import sources
from shared import ROOT

CHAPTERS = ROOT / "notebooks"
SRC = sources.SRC
SOURCE = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A small page

# %% tags=["parameters"]
n: int = 3  # how many [1..10]
scale: float = 1.0  # factor
loud: bool = False  # print more, as in loud=true
kind: str = "flat"  # the shape {flat|round}

# %% [markdown]
# Some words.

# %%
from pathlib import Path

assert n != 7, "seven is not my number\\nsecond line"
print("in", Path.cwd().name, n * scale, type(loud).__name__, kind)
"""


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "notebooks").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "requirements.lock").write_text("numpy==1\n")
    (root / "notebooks/01-small.py").write_text(SOURCE)
    return root


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """One project whose notebook was run with its default parameters."""
    root = tmp_path_factory.mktemp("executed") / "project"
    (root / "notebooks").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "requirements.lock").write_text("numpy==1\n")
    (root / "notebooks/01-small.py").write_text(SOURCE)
    (root / "book").mkdir()
    (root / "book/_toc.yml").write_text("chapters:\n  - file: executed/01-small\n")
    notebooks.sync(root=root)
    path = notebooks.run(root / "notebooks/01-small.py")
    return root, path


@pytest.fixture
def built(executed, tmp_path):
    """A private copy of the executed project."""
    return Path(shutil.copytree(executed[0], tmp_path / "copy"))


def printed(path: Path) -> str:
    cells = json.loads(path.read_text())["cells"]
    return "".join(
        line
        for c in cells
        for o in c.get("outputs", [])
        for line in o.get("text", [])
        if o["name"] == "stdout"
    )


# ---------------------------------------------------------------------------------------------- parameters


def test_a_parameter_is_a_line_with_type_default_help_and_bounds(project):
    found = notebooks.read_parameters(project / "notebooks/01-small.py")
    assert found == [
        Parameter("n", "int", 3, "how many", "[1..10]"),
        Parameter("scale", "float", 1.0, "factor"),
        Parameter("loud", "bool", False, "print more, as in loud=true"),
        Parameter("kind", "str", "flat", "the shape", "{flat|round}"),
    ]


def test_texts_become_values_of_the_parameters_types(project):
    path = project / "notebooks/01-small.py"
    given = {"n": "5", "scale": "2", "loud": "true", "kind": "round"}
    values = notebooks.check_parameters(path, given)
    assert values == {"n": 5, "scale": 2.0, "loud": True, "kind": "round"}
    assert [type(v) for v in values.values()] == [int, float, bool, str]
    assert notebooks.check_parameters(path, {"loud": "False"}) == {"loud": False}, "not a string that is true"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lod": "true"}, "has no parameter 'lod'. Did you mean loud? It takes: n, scale, loud, kind."),
        ({"n": "three"}, "n='three': expected a whole number"),
        ({"n": "2.5"}, "n='2.5': expected a whole number"),
        ({"n": True}, "n='True': expected a whole number"),
        ({"scale": "wide"}, "scale='wide': expected a number"),
        ({"loud": "maybe"}, "loud='maybe': expected true or false"),
        ({"n": "11"}, "n=11 is not allowed: how many must lie between 1 and 10"),
        ({"n": "0"}, "between 1 and 10"),
        ({"kind": "square"}, "kind='square' is not one of flat, round"),
    ],
)
def test_a_wrong_parameter_is_one_line_and_nothing_is_written(project, given, says):
    with pytest.raises(InputError) as error:
        notebooks.run(project / "notebooks/01-small.py", given)
    assert says in str(error.value) and "\n" not in str(error.value)
    assert not (project / "_build").exists() and not (project / "book").exists()


@pytest.mark.parametrize(
    ("help", "good", "bad"),
    [
        ("{encodings}", "learned+axial-rope", "spiral"),
        ("{recipes}", "quick", "slow"),
        ("{nyquist}", "odd", "even"),
        ("{device}", "cpu", "meta"),
        ("{encodings,...}", "roll,learned+axial-rope", "roll,spiral"),
        ("{cuda|cpu,...}", "cpu,cuda", "cpu,tpu"),
        ("{cuda|cpu,...}", "cpu", "cpu,cpu"),
    ],
)
def test_names_that_the_library_knows_are_asked_of_the_library(project, help, good, bad):
    path = project / "notebooks/02-names.py"
    path.write_text(f'# %% tags=["parameters"]\nname: str = "x"  # which one {help}\n')
    assert notebooks.check_parameters(path, {"name": good}) == {"name": good}
    with pytest.raises(InputError, match=bad.rpartition(",")[2]):
        notebooks.check_parameters(path, {"name": bad})


def test_spaces_in_a_list_of_names_are_dropped():
    given = {"encodings": " none, learned+roll "}
    values = notebooks.check_parameters(CHAPTERS / "12-results.py", given)
    assert values == {"encodings": "none,learned+roll"}


@pytest.mark.parametrize(
    ("chapter", "name", "value", "says"),
    [
        ("02-sinusoids", "d", "7", "from 2 in steps of 2"),
        ("03-relative", "d", "1", "between 2 and 256"),
        ("04-rotary", "d", "5", "from 4 in steps of 2"),
        ("06-continuous", "position", "2", "between 0.1 and 0.9"),
        ("07b-twin", "images", "64", "between 256 and 1257"),
        ("07b-twin", "steps", "10", "between 40 and 150"),
        ("08-multiplexed", "n", "3", "between 4 and 128"),
        ("10-topography", "side", "4", "between 8 and 12"),
        ("10-topography", "steps", "1", "between 40 and 300"),
        ("09-axes", "head_dim", "20", "from 16 in steps of 8"),
        ("11-train", "device", "foo", "not one of auto, cpu, cuda, cuda:N, mps"),
        ("11-train", "options", "width=999", "width=999 does not fit"),
        ("11-train", "options", "speeds=[1", "expected key=value"),
        ("11-train", "overrides", "epochz=3", "did you mean 'epochs'"),
        ("11-train", "overrides", "warmup_epochs=99", "longer than epochs"),
        ("11-train", "overrides", "patch_size=3,resolutions=[]", "both sides must divide"),
        ("12-results", "encodings", "roll,foo", "unknown encoding 'foo'"),
        ("15-fast", "kinds", "tpu", "not one of cuda, cpu"),
    ],
)
def test_a_chapter_refuses_before_it_runs_what_would_fail_or_show_something_else(chapter, name, value, says):
    with pytest.raises(InputError) as error:
        notebooks.check_parameters(CHAPTERS / f"{chapter}.py", {name: value})
    assert says in str(error.value) and "\n" not in str(error.value)


def test_options_may_hold_lists_and_are_read_as_the_chapter_reads_them():
    given = {
        "encoding": "multiplexed-roll",
        "options": "speeds=[1,1], width=8",
        "overrides": "betas=[0.8,0.9]",
    }
    path = CHAPTERS / "11-train.py"
    assert notebooks.check_parameters(path, given) == given
    (cell,) = (c.source for c in jupytext.read(path).cells if "def pairs" in c.source)
    names: dict = {"yaml": yaml}
    exec(re.search(r"def pairs.*?(?=\n\n)", cell, re.DOTALL)[0], names)
    for text in ("", *(given[key] for key in ("options", "overrides")), "augmentation.mixup=0.2,name=a"):
        assert names["pairs"](text) == _pairs("options", text)
    assert names["pairs"](given["options"]) == {"speeds": [1, 1], "width": 8}


def test_the_defaults_of_every_chapter_are_allowed():
    for path in sorted(CHAPTERS.glob("*.py")):
        defaults = {p.name: p.default for p in notebooks.read_parameters(path)}
        assert notebooks.check_parameters(path, defaults) == defaults


@pytest.mark.parametrize("start", ["", "notebooks"])
def test_the_paths_of_a_chapter_are_the_projects_wherever_jupyter_starts(start, monkeypatch):
    root = CHAPTERS.parent
    found = {}
    for path in sorted(CHAPTERS.glob("*.py")):
        body = ast.parse(path.read_text()).body
        texts = (n.value for n in ast.walk(ast.Module(body, [])) if isinstance(n, ast.Constant))
        places = {text for text in texts if isinstance(text, str) and text.startswith(("data/", "_build/"))}
        if places:
            monkeypatch.chdir(root / start)
            ready = takewhile(lambda s: isinstance(s, ast.Import | ast.ImportFrom | ast.AnnAssign), body)
            first = body[len(list(ready))]  # before this, there are only imports and parameters
            exec(ast.unparse(first), {"enter_root": sources.enter_root})
            found[path.stem] = {Path(place).resolve().parent for place in places}
    assert found.keys() >= {"11-train", "12-results", "13-ablations", "14-inside", "15-fast"}
    assert set().union(*found.values()) <= {root / "data", root / "_build"}


def test_a_chapter_outside_of_the_project_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources.enter_root()
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("line", ["n = 3", "n: list = [1]", "n: int = 2.5", "n: int = f(3)", "print(n)"])
def test_a_parameters_cell_holds_only_typed_literals(project, line):
    path = project / "notebooks/02-odd.py"
    path.write_text(f'# %% tags=["parameters"]\n{line}\n')
    with pytest.raises(InputError, match=re.escape(line)):
        notebooks.read_parameters(path)


def test_a_notebook_that_does_not_exist_names_its_neighbor(project):
    with pytest.raises(InputError, match=r"did you mean .*01-small.py"):
        notebooks.run(project / "notebooks/01-smal.py")


# ----------------------------------------------------------------------------------------------------- run


def test_a_run_starts_in_the_root_and_leaves_a_stamp(executed):
    root, path = executed
    assert path == root / "book/executed/01-small.ipynb"
    assert printed(path) == "in project 3.0 bool flat\n"
    stamp = notebooks.read_stamp(path)
    assert stamp["notebook"] == "notebooks/01-small.py"
    assert stamp["parameters"] == {"n": 3, "scale": 1.0, "loud": False, "kind": "flat"}
    assert stamp["changed"] == {} and stamp["seconds"] > 0 and stamp["device"] and stamp["optimize"] == 0
    assert stamp["versions"]["python"] == sys.version.split()[0]
    assert notebooks.gate(root) == []
    assert str(root) not in path.read_text(), "no path of this machine in a result"
    assert list((root / "_build/failed").iterdir()) == []


def test_other_parameters_go_elsewhere_and_change_the_result(project, caplog):
    path = notebooks.run(project / "notebooks/01-small.py", {"n": "4", "loud": "true"})
    assert path.parent.parent == project / "_build/runs"
    assert printed(path) == "in project 4.0 bool flat\n"
    assert notebooks.read_stamp(path)["changed"] == {"n": 4, "loud": True}
    assert not caplog.messages
    assert not (project / "book/executed").exists()


def test_a_rerun_with_other_parameters_writes_records_of_its_own(project):
    source = project / "notebooks/02-writes.py"
    source.write_text(
        '# %% tags=["parameters"]\nn: int = 1  # how many\nrecords: str = "_build/records"  # folder\n\n'
        "# %%\nfrom pathlib import Path\n\nfolder = Path(records)\n"
        "print(sorted(p.name for p in folder.iterdir()))\n(folder / f'{n}.json').touch()\n"
    )
    shared = project / "_build/records"
    shared.mkdir(parents=True)
    (shared / "0.json").touch()
    for _ in range(2):
        path = notebooks.run(source, {"n": 2})
        assert printed(path) == "['0.json']\n", "what is there is read, what an earlier rerun wrote is not"
        assert [p.name for p in shared.iterdir()] == ["0.json"]
        assert sorted(p.name for p in (path.parent / "records").iterdir()) == ["0.json", "2.json"]
        own = path.parent.relative_to(project) / "records"
        assert notebooks.read_stamp(path)["records"] == own.as_posix()
    notebooks.run(source, {"n": 3, "records": "_build/records"})
    notebooks.run(source)
    assert sorted(p.name for p in shared.iterdir()) == ["0.json", "1.json", "3.json"]


OWN = """\
from rollpe.encodings import Encoding, register

@register("own")
class Own(Encoding):
    acts_on = "scores"
"""
USES = """\
# %% tags=["parameters"]
encoding: str = "roll"  # its name {encodings}

# %%
from rollpe.encodings import create_encoding

print(type(create_encoding(encoding, head_dim=4, heads=1)).__name__)
"""


def test_an_encoding_of_ones_own_reaches_the_kernel_the_stamp_and_the_command(project, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "ENCODINGS", dict(ENCODINGS))
    source, own = project / "notebooks/02-uses.py", tmp_path / "own.py"
    source.write_text(USES)
    own.write_text(OWN)
    with pytest.raises(InputError, match="unknown encoding 'own'"):
        notebooks.run(source, {"encoding": "own"})
    path = notebooks.run(source, {"encoding": "own"}, imports=[own])
    assert printed(path) == "Own\n" and str(tmp_path) not in path.read_text()
    stamp = notebooks.read_stamp(path)
    assert stamp["outside"] == {"../own.py": sources.hash_files([own], project)}
    assert command(stamp) == "rollpe notebook notebooks/02-uses.py -p encoding own --import ../own.py"
    plain = notebooks.run(source, imports=[own])
    assert "_build/runs" in plain.as_posix(), "no page of the book, though all parameters are the defaults"


def test_a_failing_cell_is_one_line_that_names_cell_error_and_partial_notebook(project, monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")  # asserts of a chapter are its checks, and stay on
    with pytest.raises(notebooks.NotebookFailed) as error:
        notebooks.run(project / "notebooks/01-small.py", {"n": 7})
    message = str(error.value)
    assert "notebooks/01-small.py: cell In [3] stopped with AssertionError: seven is not my number" in message
    assert "\n" not in message
    (partial,) = (project / "_build/failed").glob("*.ipynb")
    assert partial.name in message
    assert not (project / "_build/runs").exists()


@pytest.mark.parametrize("kind", ["folder", "device", "fifo"])
def test_an_output_that_is_no_regular_file_is_refused_before_anything_runs(project, kind):
    target = {"folder": project, "device": Path("/dev/null"), "fifo": project / "fifo"}[kind]
    if kind == "fifo":
        os.mkfifo(target)
    with pytest.raises(InputError, match="--output") as error:
        notebooks.run(project / "notebooks/01-small.py", output=target)
    assert "\n" not in str(error.value) and not (project / "_build").exists()
    assert target.exists() and not target.is_file()


@pytest.mark.parametrize("missing", ["jupytext", "papermill"])
def test_without_the_extra_a_run_is_one_line_that_names_it(project, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=rf"{missing} is not installed.*\[notebooks\]") as error:
        notebooks.run(project / "notebooks/01-small.py")
    assert "\n" not in str(error.value)


def test_without_the_extra_the_gate_is_one_line_that_names_it(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(InputError, match=r"jupytext is not installed.*\[notebooks\]"):
        notebooks.gate(built)


def test_a_device_is_named_with_the_threads_that_torch_used(monkeypatch):
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    assert _device(3).endswith(", 3 threads") and _device(1).endswith(", 1 thread")
    assert "thread" not in _device(None)


def test_a_dead_kernel_is_one_line(project):
    path = project / "notebooks/02-dies.py"
    path.write_text("# %%\nimport os\nos._exit(1)\n")
    with pytest.raises(notebooks.NotebookFailed, match=r"02-dies.py"):
        notebooks.run(path)


def test_the_pair_runs_under_plain_papermill(project):
    notebooks.sync(root=project)
    command = ["papermill", "notebooks/01-small.ipynb", "out.ipynb", "-p", "n", "5", "--log-level", "ERROR"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--no-progress-bar"], cwd=project, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert printed(project / "out.ipynb").endswith("5.0 bool flat\n")


# --------------------------------------------------------------------------------------------------- pairs


def test_syncing_twice_changes_nothing_and_reads_back_equal(project):
    pair = project / "notebooks/01-small.ipynb"
    assert notebooks.sync(check=True, root=project) == [pair] and not pair.exists()
    assert notebooks.sync(root=project) == [pair]
    first = pair.read_bytes()
    assert notebooks.sync(root=project) == [] == notebooks.sync(check=True, root=project)
    assert pair.read_bytes() == first
    cells = jupytext.read(pair).cells
    assert [c.source for c in cells] == [
        c.source for c in jupytext.read(project / "notebooks/01-small.py").cells
    ]
    assert not any(c.get("outputs") or c.get("execution_count") for c in cells)


@pytest.mark.parametrize("change", ["text", "tags", "outputs", "cells"])
def test_a_difference_in_content_is_found_and_one_in_time_or_layout_is_not(project, change):
    notebooks.sync(root=project)
    pair = project / "notebooks/01-small.ipynb"
    content = json.loads(pair.read_text())
    pair.write_text(json.dumps(content))  # another layout, a later time
    assert notebooks.sync(check=True, root=project) == []
    cell = content["cells"][-1]
    if change == "text":
        cell["source"].append("\n1 + 1")
    elif change == "tags":
        cell["metadata"]["tags"] = ["hide-input"]
    elif change == "outputs":
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]
    else:
        content["cells"].pop()
    pair.write_text(json.dumps(content))
    assert notebooks.sync(check=True, root=project) == [pair]


def test_a_pair_without_source_is_reported_and_left_alone(project):
    notebooks.sync(root=project)
    lone = project / "notebooks/09-lone.ipynb"
    lone.write_text("{}")
    assert notebooks.sync(root=project) == [lone] and lone.read_text() == "{}"


# ----------------------------------------------------------------------------------------- what is imported


@pytest.fixture
def package(tmp_path, monkeypatch):
    """a → b → sub.one; c only for type checkers; d and all, which computes what it imports, by nobody."""
    monkeypatch.setattr(sources, "PACKAGES", ("toy",))
    root = tmp_path / "src/toy"
    for folder in ("sub/deep", "all"):
        (root / folder).mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy import c\n"
        "def f():\n    from toy.b import x\n"
    )
    (root / "b.py").write_text("from .sub import one\nx = 1\n")
    (root / "c.py").write_text("import toy.d\n")
    (root / "d.py").write_text("")
    (root / "sub/__init__.py").write_text("")
    (root / "sub/one.py").write_text("from ..errors import E\n")
    (root / "sub/two.py").write_text("")
    (root / "all/__init__.py").write_text("import_module(f'{__name__}.{1}')\n")
    (root / "all/one.py").write_text("import toy.errors\n")
    (root / "errors.py").write_text("E = 1\n")
    (root / "b.yaml").write_text("k: 1\n")
    (root / "d.yaml").write_text("k: 1\n")
    for name in ("sub/deep/data.yaml", "sub/one.yaml", "sub/two.yaml"):
        (root / name).write_text("k: 1\n")
    return root


def test_imports_are_followed_and_nothing_else_counts(tmp_path, package):
    page = tmp_path / "page.py"
    page.write_text("# %%\n%matplotlib inline\nimport numpy\nfrom toy import a\n")
    names = [p.relative_to(package).as_posix() for p in sources.imports(page, package.parent)]
    beside = ["sub/__init__.py", "sub/deep/data.yaml", "sub/one.py", "sub/one.yaml"]
    assert names == ["__init__.py", "a.py", "b.py", "b.yaml", "errors.py", *beside]
    assert package / "d.py" in sources.module_files("toy.c", src=package.parent)
    assert {package / "all/one.py", package / "errors.py"} < {
        *sources.module_files("toy.all", src=package.parent)
    }


LOADED = """
import json, os, sys
from importlib import import_module

import matplotlib.pyplot, scipy.stats, sklearn.datasets, timm, torchvision  # once, for all modules

for name in sys.argv[1:]:
    if os.fork() == 0:
        import_module(name)
        files = [m.__file__ for n, m in sys.modules.items() if n.startswith("rollpe")]
        print(json.dumps([name, files]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process for each module costs minutes without fork")
def test_whatever_python_loads_for_a_chapter_counts_with_it():
    named = {name for chapter in CHAPTERS.glob("*.py") for name in sources._imported_names(chapter, SRC)}
    names = sorted(name for name in named if list(SRC.glob(f"{name.replace('.', '/')}.py")))
    names += [".".join(path.relative_to(SRC).parts[:-1]) for path in SRC.glob("rollpe*/*/__init__.py")]
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    loaded = dict(map(json.loads, done.stdout.splitlines()))
    assert sorted(loaded) == sorted(names)
    for name, files in loaded.items():
        assert set(map(Path, files)) <= set(sources.module_files(name)), name


# ------------------------------------------------------------------------------------- what a file means

CODE = '''"""What the file is for."""

import math

WIDTH = 3
"""Channels of a ring."""


class Ring:
    """A ring."""

    def turn(self, p=1, *, base=2.0):
        """Turn by p."""
        # half of it
        return [math.pi * p, "a string"]
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# half of it", "# all of it"),
        ('"""Turn by p."""', '"""Turn by p, which is whole."""'),
        ('"""What the file is for."""\n', ""),
        ("Channels of a ring", "Channels"),
        ('    """A ring."""\n', ""),
        ("\n\n\nclass", "\n\n\n\n\nclass"),
        ("math.pi * p, ", "math.pi * p,\n            "),
    ],
)
def test_comments_docstrings_and_layout_mean_nothing(tmp_path, old, new):
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "b.py").write_text(CODE.replace(old, new))
    assert CODE.replace(old, new) != CODE
    assert sources.meaning(tmp_path / "a.py") == sources.meaning(tmp_path / "b.py")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WIDTH = 3", "WIDTH = 4"),
        ("p=1", "p=2"),
        ("base=2.0", "base=2"),
        ("a string", "another"),
        ("math.pi * p", "p * math.pi"),
        ("def turn", "async def turn"),
        ("import math", "import cmath as math"),
    ],
)
def test_a_constant_a_default_and_an_expression_mean_something(tmp_path, old, new):
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "b.py").write_text(CODE.replace(old, new))
    assert sources.meaning(tmp_path / "a.py") != sources.meaning(tmp_path / "b.py")


YAML = "epochs: 3   # few\n\nencodings:\n  - name: roll\n    width: 8\n"


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("# few", "# not many", True),
        ("\n\n", "\n# of all\n\n\n", True),
        ("  - name: roll\n  ", "    -   name: roll\n      ", True),
        ("8", "9", False),
        ("8", "8.0", False),
        ("8", "'8'", False),
        ("epochs", "epoch", False),
        ("  - name: roll\n    width: 8", "  - width: 8\n    name: roll", False),
    ],
)
def test_yaml_means_its_keys_and_values_in_their_order(tmp_path, old, new, same):
    (tmp_path / "a.yaml").write_text(YAML)
    (tmp_path / "b.yaml").write_text(YAML.replace(old, new))
    assert YAML.replace(old, new) != YAML
    assert (sources.meaning(tmp_path / "a.yaml") == sources.meaning(tmp_path / "b.yaml")) is same


@pytest.mark.parametrize("name", ["a.py", "a.yaml", "a.json"])
def test_what_does_not_parse_and_other_files_count_with_all_bytes(tmp_path, name):
    (tmp_path / name).write_bytes(b"'{ [ # 1\n")
    assert sources.meaning(tmp_path / name) == b"'{ [ # 1\n"


def test_no_chapter_shows_what_has_no_meaning():
    """Docstrings and lines of the library, which may change without a new run."""
    chapters = [*CHAPTERS.glob("*.py")]
    for file in {*chapters, *(f for chapter in chapters for f in sources.imports(chapter))}:
        if file.suffix == ".py":
            assert not re.search(r"__doc__|getdoc|getsource|getcomments|\bhelp\(", file.read_text()), file


# ---------------------------------------------------------------------------------------------------- gate


def change_source(root):
    path = root / "notebooks/01-small.py"
    path.write_text(path.read_text().replace("Some words", "Other words"))


def change_lock(root):
    (root / "requirements.lock").write_text("numpy==2\n")


def change_notebook(root, edit):
    """Edit the executed notebook and compute its digest anew, so that the gate has to look further."""
    path = root / "book/executed/01-small.ipynb"
    content = json.loads(path.read_text())
    edit(content)
    if "rollpe" in content["metadata"]:
        content["metadata"]["rollpe"]["digest"] = notebooks.stamp_digest(content)
    path.write_text(json.dumps(content))


def forget_stamp(root):
    change_notebook(root, lambda nb: nb["metadata"].pop("rollpe"))


def reduce(root):
    change_notebook(root, lambda nb: nb["metadata"]["rollpe"]["parameters"].update(n=1))


def never_ran(root):
    change_notebook(root, lambda nb: nb["cells"][-1].update(execution_count=None))


def no_output(root):
    change_notebook(root, lambda nb: [c.update(outputs=[]) for c in nb["cells"] if "outputs" in c])


def fail(root):
    output = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
    change_notebook(root, lambda nb: nb["cells"][-1]["outputs"].append(output))


def edit(root):
    change_notebook(root, lambda nb: nb["cells"][-1].update(source="print(42)"))


def inject(root):
    claim = {"cell_type": "code", "source": "n = 3", "outputs": [], "execution_count": 9}
    claim["metadata"] = {"tags": ["injected-parameters"]}
    change_notebook(root, lambda nb: nb["cells"].append(claim))


def relabel(root):
    change_notebook(root, lambda nb: nb["cells"][-1]["metadata"].update(tags=["hide-input"]))


def switch_off(root):
    change_notebook(root, lambda nb: nb["metadata"]["rollpe"].update(optimize=1))


def forget_digest(root):
    path = root / "book/executed/01-small.ipynb"
    path.write_text(path.read_text().replace('"digest"', '"digits"'))


def print_more(root):
    path = root / "book/executed/01-small.ipynb"
    path.write_text(path.read_text().replace("3.0 bool flat", "99.99 bool flat"))


def write_report(root, **changes):
    files = sources.module_files("rollpe_book.equations")
    report = {"source_hash": sources.hash_files(files, SRC, sources.meaning)}
    report |= {"equations": [{"label": "eq-a", "error": 0.1}]} | changes
    report = {"digest": sources.hash_json(report)} | report
    (root / "_build").mkdir(exist_ok=True)
    (root / "_build/equations.json").write_text(json.dumps(report))


def change_pair(edit):
    def change(root):
        path = root / "notebooks/01-small.ipynb"
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))

    return change


edit_pair = change_pair(lambda nb: nb["cells"][0].update(source="# A proof"))
retitle_pair = change_pair(lambda nb: nb["metadata"].update(title="A proof"))
attach_to_pair = change_pair(lambda nb: nb["cells"][0].update(attachments={"a.png": {"image/png": "aGk="}}))
edit_attributes_of_pair = change_pair(lambda nb: nb["cells"][-1]["metadata"].update(slideshow="skip"))


def damage_pair(root):
    (root / "notebooks/01-small.ipynb").write_text("{")


def remove_pair(root):
    (root / "notebooks/01-small.ipynb").unlink()


def add_by_hand(name):
    def add(root):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / "book/executed/01-small.ipynb", root / name)
        (root / "book/_toc.yml").write_text("- executed/01-small\n- best\n")

    return add


def edit_report(root):
    write_report(root)
    path = root / "_build/equations.json"
    path.write_text(path.read_text().replace("0.1", "0.0"))


def age_report(root):
    write_report(root, source_hash="0")


def damage_report(root):
    (root / "_build").mkdir(exist_ok=True)
    (root / "_build/equations.json").write_text("[]")


def remove(root):
    (root / "book/executed/01-small.ipynb").unlink()


def damage(root):
    (root / "book/executed/01-small.ipynb").write_text("{")


def unlist(root):
    (root / "book/_toc.yml").write_text("root: index\n")


def lose_source(root):
    (root / "notebooks/01-small.py").rename(root / "notebooks/02-other.py")


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (change_source, "stale, notebooks/01-small.py changed since"),
        (change_lock, "stale, requirements.lock changed since"),
        (forget_stamp, "no stamp"),
        (reduce, "reduced, it ran with n=1 instead of 3"),
        (never_ran, "hollow"),
        (no_output, "hollow"),
        (fail, "failed, ValueError"),
        (edit, "edited, its cells are not those of notebooks/01-small.py"),
        (inject, "edited, its cells are not those of notebooks/01-small.py"),
        (relabel, "edited, its cells are not those of notebooks/01-small.py"),
        (print_more, "edited, it is not what its run left"),
        (switch_off, "unchecked, it ran with asserts switched off"),
        (forget_digest, "no stamp"),
        (edit_pair, "notebooks/01-small.ipynb: missing or no copy of its .py"),
        (retitle_pair, "notebooks/01-small.ipynb: missing or no copy of its .py"),
        (attach_to_pair, "notebooks/01-small.ipynb: missing or no copy of its .py"),
        (edit_attributes_of_pair, "notebooks/01-small.ipynb: missing or no copy of its .py"),
        (damage_pair, "notebooks/01-small.ipynb: missing or no copy of its .py"),
        (remove_pair, "notebooks/01-small.ipynb: missing"),
        (add_by_hand("book/best.ipynb"), "book/best.ipynb: belongs to no notebooks/*.py"),
        (add_by_hand("book/executed/best.ipynb"), "book/executed/best.ipynb: belongs to no notebooks/*.py"),
        (add_by_hand("book/api/best.ipynb"), "book/api/best.ipynb: belongs to no notebooks/*.py"),
        (add_by_hand("notebooks/best.ipynb"), "notebooks/best.ipynb: belongs to no notebooks/*.py"),
        (edit_report, "_build/equations.json: edited"),
        (age_report, "_build/equations.json: stale"),
        (damage_report, "_build/equations.json: damaged"),
        (remove, "missing"),
        (damage, "damaged"),
        (unlist, "book/_toc.yml: does not list executed/01-small"),
        (lose_source, "book/executed/01-small.ipynb: belongs to no notebooks/*.py"),
    ],
)
def test_the_gate_refuses(built, break_it, says):
    assert notebooks.gate(built) == []
    break_it(built)
    reasons = notebooks.gate(built)
    assert any(says in reason for reason in reasons), reasons
    assert all("\n" not in reason for reason in reasons)


def test_a_report_of_the_equations_as_they_are_passes(built):
    write_report(built)
    assert notebooks.gate(built) == []


def test_another_layout_of_an_executed_notebook_passes(built):
    change = built / "book/executed/01-small.ipynb"
    change.write_text(json.dumps(json.loads(change.read_text()), sort_keys=True))
    assert notebooks.gate(built) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"metadata": []}', '{"metadata": {"rollpe": 1}}'])
def test_what_is_no_executed_notebook_has_no_stamp(tmp_path, content):
    (tmp_path / "a.ipynb").write_text(content)
    assert notebooks.read_stamp(tmp_path / "a.ipynb") == {}


def test_a_touched_source_is_not_stale(built):
    (built / "notebooks/01-small.py").touch()
    assert notebooks.gate(built) == []


def test_a_changed_library_file_makes_stale_only_what_imports_it(tmp_path, package):
    root = tmp_path
    page = root / "page.py"
    page.write_text("from toy import b\n")
    (root / "requirements.lock").write_text("")
    before = notebooks.fingerprint(page, root, package.parent)
    (package / "d.py").write_text("new = 1\n")
    assert notebooks.fingerprint(page, root, package.parent) == before
    (package / "errors.py").write_text("# the only one\nE = 1\n")
    (package / "b.yaml").write_text("# the only one\nk: 1\n")
    assert notebooks.fingerprint(page, root, package.parent) == before
    (package / "b.yaml").write_text("k: 2\n")
    assert notebooks.fingerprint(page, root, package.parent)["imports"] != before["imports"]
    (package / "b.yaml").write_text("k: 1\n")
    (package / "errors.py").write_text("E = 2\n")
    assert notebooks.fingerprint(page, root, package.parent)["imports"] != before["imports"]


def test_declared_data_and_earlier_notebooks_count(tmp_path, package):
    root = tmp_path
    (root / "requirements.lock").write_text("")
    (root / "data").mkdir()
    page = root / "page.py"
    page.write_text(
        "# ---\n# jupyter:\n#   rollpe:\n#     after: [01-a]\n#     reads: [data]\n# ---\n\n# %%\n1\n"
    )
    assert notebooks.header(page) == {"after": ["01-a"], "reads": ["data"]}
    before = notebooks.fingerprint(page, root, package.parent)
    (root / "data/new.json").write_text("1")
    middle = notebooks.fingerprint(page, root, package.parent)
    (root / "data/new.json").write_text("1 ")
    assert notebooks.fingerprint(page, root, package.parent)["reads"] != middle["reads"]
    assert middle["reads"] != before["reads"] and middle["after"] == {"01-a": None}
    (root / "book/executed").mkdir(parents=True)
    (root / "book/executed/01-a.ipynb").write_text('{"metadata": {"rollpe": {"date": "2026"}}}')
    assert notebooks.fingerprint(page, root, package.parent)["after"] == {"01-a": "2026"}
