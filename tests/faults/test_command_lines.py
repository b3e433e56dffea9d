"""Command lines that nobody means: each ends soon, in status 0, 1 or 2, with one line of complaint."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import click
import pytest
from answers import YAML, complaint
from torchvision.datasets import CIFAR100

from refusals import raising
from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe_book.equations import run_checks
from rollpe_lab.training import Recipe, TrainingError
from shared import ROOT, leaves

# fmt: off
NUMBERS = [
    "0", "-1", "1", "2", "1e3", "1_000", "0x10", "٣", "9" * 30, "9" * 5000, "nan", "inf", "", " 1", "1:30",
    "1h30m", "-1s", "9" * 400 + "h", "1.5.5",
]
WORDS = [
    "", " ", "none", "roll", "quick", "smoke", "quick/roll", "quick/learned", "roll@width=3", "roll+roll",
    "😀", "\udcff", "a" * 5000, "../x", "x\ny", "\x1b[31m", "*", "+", ",", "%s", "{}", "--", "-", "null",
    "a=b", "=", "/", "cuda:99", "meta", "eq-roll", "digits", "cifar100",
]
KEYS = [
    *Recipe.model_fields, "augmentation.mixup", "augmentation.crop_padding", "", ".", "a.b.c", "name.x",
    "__class__", "Epochs", "😀", "a" * 300, "width", "base", "speeds", "scale", "waves",
]
READ = [
    "", ".", "none.yaml", "pipe.yaml", "pipe.py", "pipe.json", "folder.yaml", "folder.json", "folder.py",
    "loop.yaml", "latin.yaml", "wide.yaml", "empty.yaml", "empty.py", "leave.py", "plan.yaml", "recipe.yaml",
    "recipe.yaml/x", "a" * 300 + ".yaml", "/dev/null", "/dev/zero", "~/x.yaml", "\udcff.yaml", "records",
    "records/quick/roll/seed-0.json", "records/quick/learned/seed-0.json", "06-continuous", "none.json",
    str(ROOT / "plans/rates.yaml"), "x.pt",
]
WRITTEN = [
    "", ".", "new", "new/deeper", "plan.yaml/x", "pipe.json", "records", "a" * 300, "é😀", "\udcff",
    "/proc/none", "loop.yaml/x",
]
# fmt: on
FILES_READ = {"checkpoints", "plan", "file", "import", "a", "b"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with some good files and some that no one should find."""
    folder = tmp_path_factory.mktemp("lines")
    for encoding in ("roll", "learned"):
        shutil.copytree(ROOT / "data/records/quick" / encoding, folder / "records/quick" / encoding)
    for suffix in ("yaml", "json", "py"):
        os.mkfifo(folder / f"pipe.{suffix}")
        (folder / f"folder.{suffix}").mkdir()
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "latin.yaml").write_bytes("name: é".encode("latin1"))
    (folder / "wide.yaml").write_text("name: x", encoding="utf16")
    for name in ("empty.yaml", "empty.py"):
        (folder / name).touch()
    (folder / "leave.py").write_text("raise SystemExit(0)")
    (folder / "plan.yaml").write_text("recipe: recipe.yaml\nblocks: [{encodings: [roll], seeds: [0]}]\n")
    shutil.copy(ROOT / "src/rollpe_lab/training/recipes/smoke.yaml", folder / "recipe.yaml")
    return folder


@pytest.fixture
def idle(folder, monkeypatch):
    """Nothing is trained, timed, fetched, executed or written into the project."""
    stop, break_off = raising(InputError("nothing is done")), raising(TrainingError("nothing is trained"))
    checks = run_checks(["eq-roll"])
    for place in ("rollpe_lab.bench.run.matmul_peak", "rollpe_book.chapters.execute._execute"):
        monkeypatch.setattr(place, stop)
    for place in ("rollpe_lab.training.run.train_epoch", "rollpe_lab.training.sweep.train"):
        monkeypatch.setattr(place, break_off)
    monkeypatch.setattr("rollpe_lab.training.sweep.precompile", lambda *_, **__: True)
    monkeypatch.setattr("rollpe_book.chapters.sync", lambda **_: [])
    monkeypatch.setattr("rollpe_book.equations.run_checks", lambda *_, **__: checks)
    monkeypatch.setattr(CIFAR100, "url", "http://127.0.0.1:1/")
    monkeypatch.chdir(folder)


def value(parameter: click.Parameter, rng: random.Random) -> list[str]:
    """Words for one parameter: of its kind, mostly; sometimes of any."""
    kind = parameter.type
    if rng.random() < 0.1:
        return [rng.choice(NUMBERS + WORDS + YAML)] * max(1, parameter.nargs)
    if parameter.nargs == 2:
        return [rng.choice(KEYS), rng.choice(YAML)]
    if getattr(parameter, "metavar", None) == "KEY=VALUE":
        return [f"{rng.choice(KEYS)}={rng.choice(YAML)}"]
    if isinstance(kind, click.Choice):
        return [rng.choice([*kind.choices, rng.choice(WORDS)])]
    if parameter.name == "file" and rng.random() < 0.5:
        return [str(ROOT / "notebooks/06-continuous.py")]
    if isinstance(kind, click.Path):
        return [rng.choice(READ if parameter.name in FILES_READ else WRITTEN)]
    if parameter.name in ("a", "b", "recipe"):
        return [rng.choice(WORDS + READ)]
    if kind is not click.STRING or parameter.name == "budget":
        return [rng.choice(NUMBERS)]
    return [rng.choice([*WORDS, *ENCODINGS])]


def line(rng: random.Random) -> list[str]:
    """A verb with a few of its options and its arguments, or not."""
    path, command = rng.choice(list(leaves()))
    options = [p for p in command.params if isinstance(p, click.Option)]
    words = []
    for parameter in rng.sample(options, rng.randrange(min(4, len(options) + 1))):
        words.append(rng.choice(parameter.opts + parameter.secondary_opts))
        words += [] if parameter.is_flag else value(parameter, rng)
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and rng.random() < 0.95:
            words += value(parameter, rng)
    if rng.random() < 0.05:
        words.insert(rng.randrange(len(words) + 1), rng.choice(WORDS))
    smallest = ["--recipe", "smoke"] if path == ("train",) and rng.random() < 0.5 else []
    return [*path, *smallest, *words]


def test_whatever_is_typed_the_answer_is_one_line_soon(idle, monkeypatch, times, tally):
    rng = random.Random(1)
    lines = [line(rng) for _ in range(100 * times)]
    wrong = [(words, said) for words in lines if (said := complaint(words, monkeypatch))]
    for words, said in wrong:
        print([word[:80] for word in words], "→", said)
    tally("command lines", len(lines), len(lines) - len(wrong))
