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

from refusals import refused
from rollpe.encodings import ENCODINGS, registry
from rollpe.errors import InputError
from rollpe_book import chapters as notebooks
from rollpe_book.chapters.gate import command
from rollpe_book.chapters.parameters import begin
from rollpe_lab import hashes
from shared import ROOT

CHAPTERS = ROOT / "notebooks"
SRC = hashes.SRC
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

# Seven is left out.
assert n != 7, "seven is not my number\\nsecond line"
print("in", Path.cwd().name, n * scale, type(loud).__name__, kind)
"""


PAGE, SMALL, PAIR = "book/executed/01-small.ipynb", "notebooks/01-small.py", "notebooks/01-small.ipynb"


def write_project(root):
    (root / "notebooks").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "requirements.lock").write_text("numpy==1\n")
    (root / SMALL).write_text(SOURCE)
    return root


@pytest.fixture
def project(tmp_path):
    return write_project(tmp_path / "project")


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """One project whose notebook was run with its default parameters."""
    root = write_project(tmp_path_factory.mktemp("executed") / "project")
    (root / "book").mkdir()
    notebooks.sync(root=root)
    path = notebooks.run(root / SMALL)
    return root, path


@pytest.fixture
def built(executed, tmp_path):
    """A private copy of the executed project."""
    return Path(shutil.copytree(executed[0], tmp_path / "copy"))


def printed(path: Path) -> str:
    cells = json.loads(path.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join("".join(output["text"]) for output in outputs if output.get("name") == "stdout")


@pytest.mark.parametrize("start", ["", "notebooks"])
def test_the_paths_of_a_chapter_are_the_projects_wherever_jupyter_starts(start, tmp_path, monkeypatch):
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
            assert ast.unparse(first) == "begin(globals())"
            begin({})
            found[path.stem] = {Path(place).resolve().parent for place in places}
    assert found.keys() >= {"11-train", "09-results", "12-fast"}
    assert set().union(*found.values()) <= {root / "data", root / "_build"}
    monkeypatch.chdir(tmp_path)
    begin({})
    assert Path.cwd() == tmp_path, "outside of a project there is no root"


# ----------------------------------------------------------------------------------------------------- run


def test_a_run_starts_in_the_root_and_leaves_a_stamp(executed, monkeypatch):
    root, path = executed
    assert path == root / PAGE
    assert printed(path) == "in project 3.0 bool flat\n"
    stamp = notebooks.read_stamp(path)
    assert stamp["notebook"] == SMALL
    assert stamp["parameters"] == {"n": 3, "scale": 1.0, "loud": False, "kind": "flat"}
    assert stamp["changed"] == {} and stamp["seconds"] > 0 and stamp["device"] and stamp["optimize"] == 0
    assert stamp["versions"]["python"] == sys.version.split()[0]
    assert "thread" not in stamp["device"], "the notebook imports no torch"
    assert notebooks.gate(root) == []
    assert str(root) not in path.read_text(), "no path of this machine in a result"
    assert list((root / "_build/failed").iterdir()) == []
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(InputError, match=r"jupytext is not installed.*\[notebooks\]"):
        notebooks.gate(root)


def test_other_parameters_go_elsewhere_and_change_the_result(project, caplog):
    path = notebooks.run(project / SMALL, {"n": "4", "loud": "true"})
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
import torch
from rollpe.encodings import create_encoding

torch.set_num_threads(2)
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
    assert re.search(r"NVIDIA|, 2 threads$", stamp["device"]), "as many as torch used"
    assert stamp["outside"] == {"../own.py": hashes.hash_files([own], project)}
    assert command(stamp) == "rollpe notebook notebooks/02-uses.py -p encoding own --import ../own.py"
    plain = notebooks.run(source, imports=[own])
    assert "_build/runs/02-uses-" in plain.as_posix(), "no page of the book, though all are defaults"


def test_a_failing_cell_is_one_line_that_names_cell_error_and_partial_notebook(project, monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")  # asserts of a chapter are its checks, and stay on
    with pytest.raises(notebooks.NotebookFailed) as error:
        notebooks.run(project / SMALL, {"n": 7})
    message = str(error.value)
    stopped = "cell In [3] stopped at “Seven is left out.” with AssertionError: seven is not my number"
    assert f"{SMALL}: {stopped}" in message
    assert "\n" not in message and os.environ["PYTHONOPTIMIZE"] == "1"
    (partial,) = (project / "_build/failed").glob("*.ipynb")
    assert partial.name in message
    assert not (project / "_build/runs").exists()


def test_a_dead_kernel_is_one_line(project):
    path = project / "notebooks/02-dies.py"
    path.write_text("# %%\nimport os\nos._exit(1)\n")
    with pytest.raises(notebooks.NotebookFailed, match=r"02-dies.py"):
        notebooks.run(path)


@pytest.mark.parametrize(
    ("source", "values", "output", "says"),
    [
        (SMALL, {"n": "11"}, None, r"between 1 and 10"),
        ("notebooks/01-smal.py", {}, None, r"did you mean .*01-small.py"),
        (SMALL, {}, "", "--output"),
        (SMALL, {}, "/dev/null", "--output"),
    ],
)
def test_what_cannot_run_is_one_line_and_nothing_is_written(project, source, values, output, says):
    with refused(says):
        notebooks.run(project / source, values, output if output is None else project / output)
    assert not (project / "_build").exists() and not (project / "book").exists()


# --------------------------------------------------------------------------------------------------- pairs


def test_every_chapter_of_the_book_has_its_pair():
    assert notebooks.sync(check=True, root=ROOT) == []


def test_syncing_twice_changes_nothing_and_reads_back_equal(project):
    pair, lone = project / PAIR, project / "notebooks/09-lone.ipynb"
    assert notebooks.sync(check=True, root=project) == [pair] and not pair.exists()
    assert notebooks.sync(root=project) == [pair]
    first = pair.read_bytes()
    assert notebooks.sync(root=project) == [] == notebooks.sync(check=True, root=project)
    assert pair.read_bytes() == first
    pair.write_text(json.dumps(json.loads(first)))  # another layout, a later time
    assert notebooks.sync(check=True, root=project) == []
    cells = jupytext.read(pair).cells
    assert [c.source for c in cells] == [c.source for c in jupytext.read(project / SMALL).cells]
    assert not any(c.get("outputs") or c.get("execution_count") for c in cells)
    lone.write_text("{}")
    assert notebooks.sync(root=project) == [lone] and lone.read_text() == "{}"


# ----------------------------------------------------------------------------------------- what is imported


LATER = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy import c\n"
TOY = {
    "a.py": LATER + "def f():\n    from toy.b import x\n",
    "b.py": "from .sub import one\nx = 1\n",
    "c.py": "import toy.d\n",
    "sub/one.py": "from ..errors import E\n",
    "all/__init__.py": "import_module(f'{__name__}.{1}')\n",
    "all/one.py": "import toy.errors\n",
    "errors.py": "E = 1\n",
    **dict.fromkeys(("__init__.py", "d.py", "sub/__init__.py", "sub/two.py"), ""),
    **{f"{name}.yaml": "k: 1\n" for name in ("b", "d", "sub/deep/data", "sub/one", "sub/two")},
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """a → b → sub.one; c only for type checkers; d and all, which computes what it imports, by nobody."""
    monkeypatch.setattr(hashes, "PACKAGES", ("toy",))
    root = tmp_path / "src/toy"
    for name, text in TOY.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_imports_are_followed_and_nothing_else_counts(tmp_path, package):
    page = tmp_path / "page.py"
    page.write_text("# %%\n%matplotlib inline\nimport numpy\nfrom toy import a\n")
    src = package.parent
    names = [p.relative_to(package).as_posix() for p in hashes.imports(page, src)]
    beside = ["sub/__init__.py", "sub/deep/data.yaml", "sub/one.py", "sub/one.yaml"]
    assert names == ["__init__.py", "a.py", "b.py", "b.yaml", "errors.py", *beside]
    assert package / "d.py" in hashes.module_files("toy.c", src=src)
    assert {package / "all/one.py", package / "errors.py"} < {*hashes.module_files("toy.all", src=src)}


LOADED = """
import json, os, sys
from importlib import import_module

import matplotlib.pyplot, scipy.stats, timm, torchvision  # once, for all modules

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
    named = {name for chapter in CHAPTERS.glob("*.py") for name in hashes._imported_names(chapter, SRC)}
    names = sorted(name for name in named if list(SRC.glob(f"{name.replace('.', '/')}.py")))
    names += [".".join(path.relative_to(SRC).parts[:-1]) for path in SRC.glob("rollpe*/*/__init__.py")]
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    loaded = dict(map(json.loads, done.stdout.splitlines()))
    assert sorted(loaded) == sorted(names)
    for name, files in loaded.items():
        assert set(map(Path, files)) <= set(hashes.module_files(name)), name


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


YAML = "epochs: 3   # few\n\nencodings:\n  - name: roll\n    width: 8\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "same"),
    [
        (CODE, "# half of it", "# all of it", True),
        (CODE, '"""Turn by p."""', '"""Turn by p, which is whole."""', True),
        (CODE, '"""What the file is for."""\n', "", True),
        (CODE, "Channels of a ring", "Channels", True),
        (CODE, '    """A ring."""\n', "", True),
        (CODE, "\n\n\nclass", "\n\n\n\n\nclass", True),
        (CODE, "math.pi * p, ", "math.pi * p,\n            ", True),
        (CODE, "p=1", "p=2", False),
        (CODE, "base=2.0", "base=2", False),
        (CODE, "a string", "another", False),
        (CODE, "math.pi * p", "p * math.pi", False),
        (CODE, "def turn", "async def turn", False),
        (CODE, "import math", "import cmath as math", False),
        (YAML, "# few", "# not many", True),
        (YAML, "\n\n", "\n# of all\n\n\n", True),
        (YAML, "  - name: roll\n  ", "    -   name: roll\n      ", True),
        (YAML, "8", "8.0", False),
        (YAML, "8", "'8'", False),
        (YAML, "epochs", "epoch", False),
        (YAML, "  - name: roll\n    width: 8", "  - width: 8\n    name: roll", False),
    ],
)
def test_comments_docstrings_and_layout_mean_nothing_and_all_else_does(tmp_path, text, old, new, same):
    suffix = "py" if text == CODE else "yaml"
    changed = text.replace(old, new)
    assert changed != text
    for name, content in (("a", text), ("b", changed)):
        (tmp_path / f"{name}.{suffix}").write_text(content)
    meanings = {hashes.meaning(tmp_path / f"{name}.{suffix}") for name in "ab"}
    assert (len(meanings) == 1) is same


@pytest.mark.parametrize("name", ["a.py", "a.yaml", "a.json"])
def test_what_does_not_parse_and_other_files_count_with_all_bytes(tmp_path, name):
    (tmp_path / name).write_bytes(b"'{ [ # 1\n")
    assert hashes.meaning(tmp_path / name) == b"'{ [ # 1\n"


def test_no_chapter_shows_what_has_no_meaning():
    """Docstrings and lines of the library, which may change without a new run."""
    chapters = [*CHAPTERS.glob("*.py")]
    for file in {*chapters, *(f for chapter in chapters for f in hashes.imports(chapter))}:
        if file.suffix == ".py":
            assert not re.search(r"__doc__|getdoc|getsource|getcomments|\bhelp\(", file.read_text()), file


# ---------------------------------------------------------------------------------------------------- gate


def change(name, edit):
    """Edit a notebook, and give an executed one its new digest, so that the gate has to look further."""

    def apply(root):
        content = json.loads((root / name).read_text())
        edit(content)
        if "rollpe" in content["metadata"]:
            content["metadata"]["rollpe"]["digest"] = notebooks.stamp_digest(content)
        (root / name).write_text(json.dumps(content))

    return apply


def replace(name, old, new):
    """Replace a text in a file; all of it for None, a file without a text for an empty one."""

    def apply(root):
        text = (root / name).read_text()
        (root / name).write_text(new if old is None else text.replace(old, new))

    return apply


def exchange(root):
    """The pages of two chapters, each in the place of the other; both were run and have their digests."""
    other, page = "notebooks/02-other.py", root / "book/executed/02-other.ipynb"
    (root / other).write_text(SOURCE.replace("Some words", "Other words"))
    notebooks.sync(root=root)
    notebooks.run(root / other)
    assert notebooks.gate(root) == []
    for old, new in ((PAGE, "kept"), (page, PAGE), ("kept", page)):
        (root / old).rename(root / new)


FAILED = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
INJECTED = {"cell_type": "code", "source": "n = 3", "outputs": [], "execution_count": 9}
INJECTED["metadata"] = {"tags": ["injected-parameters"]}
EDITED = "edited, it is not what"
OTHER_CELLS = f"edited, its cells are not those of {SMALL}"


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (replace(SMALL, "Some words", "Other words"), f"stale, {SMALL} changed since"),
        (replace(PAGE, "in project 3.0", "in project 3.1"), f"{PAGE}: {EDITED} its run left"),
        (replace(PAGE, "Some words", "Other words"), f"{PAGE}: {EDITED} its run left"),
        (replace(PAGE, '"seconds": ', '"seconds": 1'), f"{PAGE}: {EDITED} its run left"),
        (exchange, f"{PAGE}: stale, {SMALL} changed since"),
        (replace("requirements.lock", "1", "2"), "stale, requirements.lock changed since"),
        (change(PAGE, lambda nb: nb["metadata"].pop("rollpe")), "without a stamp"),
        (replace(PAGE, '"digest"', '"digits"'), "without a stamp"),
        (replace(PAGE, None, "{"), "damaged"),
        (lambda root: (root / PAGE).unlink(), "missing"),
        (change(PAGE, lambda nb: nb["metadata"]["rollpe"]["parameters"].update(n=1)), "n=1 instead of 3"),
        (change(PAGE, lambda nb: nb["cells"][-1].update(execution_count=None)), "hollow"),
        (change(PAGE, lambda nb: [c.update(outputs=[]) for c in nb["cells"] if "outputs" in c]), "hollow"),
        (change(PAGE, lambda nb: nb["cells"][-1]["outputs"].append(FAILED)), "failed, ValueError"),
        (change(PAGE, lambda nb: nb["cells"][-1].update(source="print(42)")), OTHER_CELLS),
        (change(PAGE, lambda nb: nb["cells"].append(INJECTED)), OTHER_CELLS),
        (change(PAGE, lambda nb: nb["cells"][-1]["metadata"].update(tags=["hide-input"])), OTHER_CELLS),
        (change(PAGE, lambda nb: nb["metadata"]["rollpe"].update(optimize=1)), "asserts switched off"),
    ],
)
def test_the_gate_refuses(built, break_it, says):
    break_it(built)
    reasons = notebooks.gate(built)
    assert any(says in reason for reason in reasons), reasons
    assert all("\n" not in reason for reason in reasons)


def test_another_layout_or_time_pass(built):
    page = built / PAGE
    page.write_text(json.dumps(json.loads(page.read_text()), sort_keys=True))
    (built / SMALL).touch()
    assert notebooks.gate(built) == []
    page.write_text("{}")
    assert notebooks.read_stamp(page) == notebooks.read_stamp(built / "nowhere.md") == {}


def test_a_changed_library_file_makes_stale_only_what_imports_it(tmp_path, package):
    page = tmp_path / "page.py"
    page.write_text("from toy import b\n")
    (tmp_path / "requirements.lock").touch()
    before = notebooks.fingerprint(page, tmp_path, package.parent)
    for name, text, same in (
        ("d.py", "new = 1\n", True),
        ("errors.py", "# the only one\nE = 1\n", True),
        ("b.yaml", "# the only one\nk: 1\n", True),
        ("b.yaml", "k: 2\n", False),
        ("errors.py", "E = 2\n", False),
    ):
        (package / name).write_text(text)
        now = notebooks.fingerprint(page, tmp_path, package.parent)
        assert (now == before, now["imports"] == before["imports"]) == (same, same), name
        (package / name).write_text(TOY[name])


def test_declared_data_and_earlier_notebooks_count(tmp_path, package):
    page, data, first = (tmp_path / name for name in ("page.py", "data/new.json", "book/executed/01-a.ipynb"))
    (tmp_path / "requirements.lock").touch()
    page.write_text(
        "# ---\n# jupyter:\n#   rollpe:\n#     after: [01-a]\n#     reads: [data]\n# ---\n\n# %%\n1\n"
    )
    assert notebooks.header(page) == {"after": ["01-a"], "reads": ["data"]}
    found = [notebooks.fingerprint(page, tmp_path, package.parent)]
    for path, text in ((data, "1"), (data, "1 "), (first, '{"metadata": {"rollpe": {"date": "2026"}}}')):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        found.append(notebooks.fingerprint(page, tmp_path, package.parent))
    reads = [now["reads"] for now in found]
    assert reads[0] != reads[1] != reads[2] == reads[3]
    assert [now["after"]["01-a"] for now in found] == [None, None, None, "2026"]
