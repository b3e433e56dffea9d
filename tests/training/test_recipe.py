"""Recipes and plans as files: what is read, and what is refused before anything expands or trains."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from refusals import refused
from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError
from rollpe_lab.commands.options import seconds
from rollpe_lab.files import read_yaml, read_yaml_file
from rollpe_lab.records import RunId
from rollpe_lab.training import create_model, load_plan, load_recipe, recipes
from rollpe_lab.training.models import shape_of
from rollpe_lab.training.recipe import FOLDER, command
from shared import stand_in

TABLE_1 = ["none", "learned", "axial-rope", "roll", "multiplexed-roll"]
BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("5.", 5.0),
        ("-.5", -0.5),
        ("010", 10),
        ("+7", 7),
        ("1:30", "1:30"),
        ("1_0_0_", "1_0_0_"),
        ("1_000.5", "1_000.5"),
        ("0x10", "0x10"),
        ("2020-01-01", "2020-01-01"),
        ("~", None),
        ("no", False),
        ("{a: [1, x]}", {"a": [1, "x"]}),
        ("'5'", "5"),
    ],
)
def test_numbers_are_decimal_and_all_else_is_plain(text, value):
    assert repr(read_yaml(text, "here")) == repr(value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (BOMB, "aliases"),
        ("!!python/object/apply:os.getcwd []", "tags"),
        ("!!binary aGk=", "tags"),
        ("epochs: 3\nepochs: 30\n", "'epochs' comes twice, line 2"),
        ("{1: 2}", "a key that is no word"),
        ("{[a]: 2}", "a key that is no word"),
        ("[" * 60_000, "too deep"),
        ("9" * 5000, "digits"),
        ("a: b: c", "line 1"),
        ("\0", "characters"),
    ],
    ids=range(10),
)
def test_yaml_of_more_than_plain_values_is_refused_in_one_line(text, named):
    with refused(f"^here: .*{named}") as error:
        read_yaml(text, "here")
    assert len(str(error.value)) < 300


def test_a_file_that_is_no_yaml_of_ours_is_refused_in_one_line_without_a_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "latin").write_bytes("a: é".encode("latin1"))
    (tmp_path / "wide").write_text("a: b", encoding="utf16")
    for name in ("pipe", "folder", "loop", "latin", "wide", "none", "a" * 300):
        with refused(name):
            read_yaml_file(tmp_path / name)
    (tmp_path / "marked").write_text("a: é", encoding="utf-8-sig")
    assert read_yaml_file(tmp_path / "marked") == {"a": "é"}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("epochs", "0", r"epochs=0: allowed is an integer ≥ 1"),
        ("epochs", "banana", r"epochs='banana': allowed is an integer ≥ 1"),
        ("epochs", "1:30", "epochs='1:30'"),
        ("epochs", "true", r"epochs=True: allowed is an integer"),
        ("epochs", 10**30, "epochs"),
        (".", "3", r"recipe key '' is unknown"),
        ("\udcff", "3", r"recipe: Input should be a valid string"),
        ("epoch", "3", r"'epoch' is unknown\. Did you mean 'epochs'\? Allowed: name, data, "),
        (
            "data",
            "mnist",
            r"data='mnist': allowed is digits, place, offset, points, points-rounded, "
            r"cifar100, sympy, sklearn",
        ),
        ("learning_rate", ".inf", r"learning_rate=inf: allowed is a number > 0"),
        ("compile", "sometimes", r"^recipe key compile='sometimes': allowed is auto"),
        ("betas", "[0.9]", r"betas=\[0\.9\]: allowed is two numbers"),
        ("betas", "[0.9, 1.0]", r"betas.*1\.0\]?: allowed is two numbers"),
        ("betas", "[0.9", r"betas: not YAML"),
        ("resolutions", "[7]", r"resolutions=\[7\]: 7 is no positive multiple of patch_size=2"),
        ("resolutions", [2 * 65], "more than 64 patches"),
        ("warmup_epochs", "1000", r"warmup_epochs=1000 is longer than epochs="),
        ("width", 10**9, "width"),
        ("augmentation.mixpu", "1", r"'augmentation\.mixpu' is unknown\. Did you mean 'mixup'\?"),
        ("augmentation.flip", "2", r"augmentation\.flip=2: allowed is input should be less than"),
        ("augmentation.rand_augment", [10**9, 9], "rand_augment"),
        ("augmentation.crop_padding", 10**9, "crop_padding"),
        ("augmentation.crop_scale", [0.9, 0.1], "crop_scale"),
        ("augmentation", "3", r"augmentation=3: allowed is "),
        ("epochs.more", "3", r"epochs\.more: epochs holds a single value"),
        ("name", "a/b", r"name='a/b': allowed is letters"),
        ("context", 8, "context"),
    ],
)
def test_a_bad_key_or_value_is_one_line_that_names_what_is_allowed(key, value, says):
    with refused(says):
        load_recipe("smoke", {key: value})


def test_a_name_in_other_letters_is_refused_wherever_it_is_given(tmp_path):
    """A changed recipe's name quotes them, and no folder's name begins with a percent sign."""
    words = (FOLDER / "smoke.yaml").read_text(encoding="utf8").replace("name: smoke", "name: ü")
    (tmp_path / "mine.yaml").write_text(words, encoding="utf8")
    for name, overrides in ((tmp_path / "mine.yaml", {}), ("smoke", {"name": "ü"}), ("smoke", {"name": "٣"})):
        with refused(r"^recipe key name='[ü٣]': allowed is letters of ASCII"):
            load_recipe(name, overrides)


def test_a_model_of_a_billion_weights_is_refused_though_width_and_depth_are_allowed():
    assert load_recipe("smoke", {"depth": 256, "width": 384}).depth == 256
    with pytest.raises(InputError, match="a billion weights"):
        load_recipe("smoke", {"depth": 256, "width": 8192})


def test_a_recipe_of_a_plan_lies_beside_the_plan(tmp_path, monkeypatch):
    (tmp_path / "plans").mkdir()
    plan = tmp_path / "plans/plan.yaml"
    plan.write_text("recipe: shallow.yaml\nblocks: [{encodings: [roll], seeds: [0]}]\n")
    shutil.copy(FOLDER / "smoke.yaml", tmp_path / "plans/shallow.yaml")
    monkeypatch.chdir(tmp_path)
    (planned,) = load_plan("plans/plan.yaml")
    assert planned.recipe == load_recipe("smoke")
    plan.write_text("recipe: none.yaml\nblocks: [{encodings: [roll], seeds: [0]}]\n")
    with pytest.raises(InputError, match=r"plans/none\.yaml"):
        load_plan(Path("plans/plan.yaml"))


@pytest.mark.parametrize(("text", "expected"), [("1h 30m", 5400), ("1h30m10s", 5410), ("1m30", 90), ("0", 0)])
def test_a_budget_is_hours_minutes_and_seconds_in_this_order(text, expected):
    assert seconds(None, None, text) == expected


@pytest.mark.parametrize("text", ["1h1h", "5m5m", "30m1h", "1:30", "1_000", "٣m", "9" * 400, ""])
def test_a_unit_that_comes_twice_or_a_number_that_is_not_decimal_is_no_budget(text):
    with pytest.raises(InputError, match="budget"):
        seconds(None, None, text)


def test_a_recipe_of_ones_own_is_a_yaml_file_and_its_runs_are_repeated_without_it(tmp_path):
    file = tmp_path / "mine.yaml"
    lines = ("data: digits", "size: nano", "patch_size: 2", "epochs: 3", "batch_size: 64")
    file.write_text("\n".join((*lines, "optimizer: sgd", "learning_rate: 1e-1")))
    recipe = load_recipe(file)
    assert (recipe.name, recipe.learning_rate) == ("mine", 0.1)
    assert told(command(recipe, RunId(recipe="mine", encoding="roll", seed=0)))[0] == recipe
    for text, says in (
        ("data: digits\n", "is missing"),
        ("- a list\n", "mapping"),
        ("a: [", "not YAML"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=says):
            load_recipe(file)
    with pytest.raises(InputError, match=r"'quik' is unknown\. Did you mean 'quick'\?.*smoke"):
        load_recipe("quik")


def told(line):
    """What a recorded command says: recipe, encoding, its options, seed."""
    words = shlex.split(line)
    assert words[:2] == ["rollpe", "train"]
    pairs = list(zip(words[2::2], words[3::2], strict=True))
    settings = dict(value.split("=", 1) for option, value in pairs if option == "--set")
    chosen = dict(value.split("=", 1) for option, value in pairs if option == "--option")
    options = {key: json.loads(value) for key, value in chosen.items()}
    named = dict(pairs)
    return load_recipe(named["--recipe"], settings), named["--encoding"], options, named["--seed"]


@pytest.mark.parametrize("name", recipes())
def test_the_recipes_load_and_build_a_model_for_every_encoding_of_table_1(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    shape = shape_of(stand_in(recipe.data, recipe.context))
    for encoding in TABLE_1:
        with torch.device("meta") if recipe.size == "small" else torch.device("cpu"):
            create_model(recipe, RunId(recipe=name, encoding=encoding, seed=0), shape)
    assert {"smoke", "quick", "short", "strong", "paper"} <= set(recipes()) and set(TABLE_1) <= set(ENCODINGS)


def test_a_changed_recipe_has_a_name_of_its_own():
    assert load_recipe("quick", {}).name == "quick"
    assert load_recipe("quick", {"epochs": str(load_recipe("quick").epochs)}).name == "quick"
    changed = load_recipe("quick", {"learning_rate": "1e-4", "augmentation.flip": "0.5"})
    assert changed.name == "quick@augmentation.flip=0.5,learning_rate=0.0001"
    assert (changed.learning_rate, changed.augmentation.flip) == (1e-4, 0.5)
    assert load_recipe("quick", {"name": "mine", "epochs": 1}).name == "mine"


@pytest.mark.parametrize(
    "changes, options",
    [
        ({}, {}),
        ({"epochs": 5, "betas": "[0.9, 0.95]"}, {"direction": -1}),
        ({"augmentation.flip": 0.5}, {}),
        ({"name": "mine", "max_steps": 2, "resolutions": "[]", "learning_rate": "1e-5"}, {}),
        ({"name": "quick@of=mine", "layer_scale": "0.1"}, {}),
    ],
)
def test_the_recorded_command_rebuilds_recipe_and_cell(changes, options):
    recipe = load_recipe("quick", changes)
    cell = RunId(recipe=recipe.name, encoding="roll", encoding_options=options, seed=4)
    assert told(command(recipe, cell)) == (recipe, "roll", options, "4")
