"""The committed records and labels are what was committed, and a forged one is refused."""

import base64
import json
import random
import shutil
from functools import partial

import numpy as np
import pytest

from rollpe.records import pack_bits, unpack_bits
from shared import ROOT, workflow_script

committed = workflow_script("committed")
ARMS = ("mini/roll", "quick/roll", "quick/axial-rope")


@pytest.fixture(scope="module")
def history():
    found = committed.read_history(ROOT)
    if found is None:
        pytest.skip("git has no whole history of the records here, as in a shallow clone")
    return found


def test_the_committed_data_agree_with_themselves_and_the_plans():
    plans = committed.planned(ROOT)
    assert list(committed.refuse(ROOT / "data/records", None, plans, ROOT / "data")) == []


def test_the_committed_data_are_what_was_committed(history):
    plans = committed.planned(ROOT)
    assert list(committed.refuse(ROOT / "data/records", history, plans, ROOT / "data")) == []


@pytest.fixture
def copied(tmp_path, history):
    """A copy of some records and of the labels, and what refuses it."""
    for arm in ARMS:
        shutil.copytree(ROOT / "data/records" / arm, tmp_path / "records" / arm)
    shutil.copytree(ROOT / "data/labels", tmp_path / "labels")
    versions = {name: v for name, v in history.versions.items() if name.rpartition("/")[0] in ARMS}
    some, plans = history._replace(versions=versions), committed.planned(ROOT)
    return tmp_path, lambda: list(committed.refuse(tmp_path / "records", some, plans, tmp_path))


def forge(path, **changes):
    """Write other values into a record; test__accuracy=1 is the accuracy inside of test."""
    record = json.loads(path.read_text())
    for name, value in changes.items():
        *above, key = name.split("__")
        inside = record
        for part in above:
            inside = inside[part]
        assert inside.get(key) != value
        inside[key] = value
    path.write_text(json.dumps(record))


def draw(folder, rng):
    return rng.choice(sorted(folder.glob("records/*/*/seed-*.json")))


def more_right(folder, rng, bits_too=True):
    path = draw(folder, rng)
    test = json.loads(path.read_text())["test"]
    bits = unpack_bits(test["correct"], test["images"])
    bits[rng.sample(sorted(np.flatnonzero(~bits)), 3)] = True
    forge(path, test__accuracy=bits.mean())
    if bits_too:
        forge(path, test__correct=pack_bits(bits))


def one_value(folder, rng, name, value):
    forge(draw(folder, rng), **{name: value})


def other_epochs(folder, rng):
    path = draw(folder, rng)
    history = json.loads(path.read_text())["history"]
    history[-1]["held_out_accuracy"] = 0.999
    forge(path, history=history)


def other_sources(folder, rng):
    forge(draw(folder, rng), provenance__source_hash=f"{rng.getrandbits(256):064x}")


def other_commit(folder, rng):
    path = draw(folder, rng)
    mine = json.loads(path.read_text())["provenance"]["commit"]
    others = {json.loads(p.read_text())["provenance"]["commit"] for p in folder.glob("records/*/*/*.json")}
    forge(path, provenance__commit=rng.choice(sorted(others - {mine})))


def other_arrays(folder, rng):
    one, two = rng.sample(sorted(folder.glob("records/*/*/seed-*.npz")), 2)
    shutil.copyfile(two, one)


def exchanged_arrays(folder, rng):
    one, two = rng.sample(sorted(folder.glob("records/*/*/seed-*.npz")), 2)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def no_arrays(folder, rng):
    draw(folder, rng).with_suffix(".npz").unlink()


def no_seed(folder, rng):
    path = draw(folder, rng)
    path.unlink()
    path.with_suffix(".npz").unlink()


def one_seed_more(folder, rng):
    path = draw(folder, rng)
    target = path.with_name("seed-9.json")
    shutil.copyfile(path, target)
    forge(target, seed=9)


def another_seeds_place(folder, rng):
    path = draw(folder, rng)
    shutil.copyfile(path, path.with_name("seed-9.json"))


def permuted_labels(folder, rng):
    path = folder / "labels/cifar100.json"
    content = json.loads(path.read_text())
    rng.shuffle(content["classes"])
    path.write_text(json.dumps(content))


def other_labels(folder, rng):
    """The same number of images of each class, two of them exchanged."""
    path = folder / "labels/cifar100.json"
    content = json.loads(path.read_text())
    labels = bytearray(base64.b64decode(content["labels"]))
    one, two = rng.sample(range(len(labels)), 2)
    while labels[one] == labels[two]:
        two = rng.randrange(len(labels))
    labels[one], labels[two] = labels[two], labels[one]
    path.write_text(json.dumps(content | {"labels": base64.b64encode(labels).decode()}))


FORGERIES = {
    "accuracy": partial(more_right, bits_too=False),
    "accuracy and bits": more_right,
    "dirty": partial(one_value, name="provenance__dirty", value=True),
    "unknown whether dirty": partial(one_value, name="provenance__dirty", value=None),
    "machine": partial(one_value, name="environment__device_name", value="NVIDIA H200"),
    "date": partial(one_value, name="provenance__finished", value="2031-01-01T00:00:00+00:00"),
    "another size": partial(one_value, name="resolutions", value={"12": 0.99}),
    "learning rate": partial(one_value, name="config__learning_rate", value=0.5),
    "epochs": other_epochs,
    "sources": other_sources,
    "commit": other_commit,
    "arrays of another run": other_arrays,
    "arrays exchanged": exchanged_arrays,
    "no arrays": no_arrays,
    "no seed": no_seed,
    "one seed more": one_seed_more,
    "another seed's place": another_seeds_place,
    "classes": permuted_labels,
    "labels": other_labels,
}


def test_every_forgery_is_refused(copied, times, tally):
    folder, refuse = copied
    assert refuse() == []
    rng = random.Random(3)
    clean = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    kept = 0
    for plant in list(FORGERIES.values()) * times:
        plant(folder, rng)
        kept += bool(refuse())
        for path in folder.rglob("*.*"):
            if path.is_file() and path not in clean:
                path.unlink()
        for path, content in clean.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
    tally("forged records, arrays or labels", len(FORGERIES) * times, kept)


def test_accuracy_seeds_and_labels_are_checked_without_a_history_too(copied):
    folder, _ = copied
    reasons = []
    for number, plant in enumerate(("accuracy", "dirty", "one seed more", "labels")):
        FORGERIES[plant](folder, random.Random(number))
        before, reasons = (
            reasons,
            list(committed.refuse(folder / "records", None, committed.planned(), folder)),
        )
        assert len(reasons) > len(before), plant
