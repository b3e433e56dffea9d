"""The committed records, benchmarks, plans and labels are what was committed, and a forged one is refused."""

import base64
import json
import random
import shutil
from functools import partial

import numpy as np
import pytest

from rollpe_lab.records import pack_bits, unpack_bits
from rollpe_lab.training import load_plan
from shared import ROOT, workflow_script

committed = workflow_script("committed")
ARMS = ("mini/roll", "quick/roll", "quick/axial-rope")


@pytest.fixture(scope="module")
def history():
    found = committed.read_history(ROOT)
    if found is None:
        pytest.skip("git has no whole history of the records here, as in a shallow clone")
    return found


def test_the_committed_data_agree_with_themselves_the_list_and_the_plans():
    tracked, plans = committed.read_tracked(ROOT), committed.planned(ROOT)
    assert list(committed.refuse(ROOT, None, tracked, plans)) == []


def test_the_committed_data_are_what_was_committed(history):
    tracked, plans = committed.read_tracked(ROOT), committed.planned(ROOT)
    assert list(committed.refuse(ROOT, history, tracked, plans)) == []


def files(folder):
    return {p.relative_to(folder).as_posix() for name in committed.READ for p in (folder / name).rglob("*.*")}


@pytest.fixture
def copied(tmp_path, history):
    """A copy of some data, all listed, and what refuses it, with the list alone or with the history alone."""
    for arm in ARMS:
        shutil.copytree(ROOT / "data/records" / arm, tmp_path / "data/records" / arm)
    for name in ("plans", "data/labels", "data/benchmarks", "data/photo"):
        shutil.copytree(ROOT / name, tmp_path / name)
    names = files(tmp_path)
    some = history._replace(versions={name: v for name, v in history.versions.items() if name in names})
    honest = {name: digest for name, digest in committed.read_list(ROOT).items() if name in names}
    plans = committed.planned(ROOT)

    def write(listed):
        lines = (f"{digest}  {name}\n" for name, digest in listed.items())
        (tmp_path / committed.LIST).write_text("".join(lines))

    def by_list():
        write(honest)
        return list(committed._differing(tmp_path, honest, files(tmp_path)))

    def by_history():
        """With a list that was forged as well."""
        write({name: committed.sha256(tmp_path / name) for name in files(tmp_path)})
        return list(committed.refuse(tmp_path, some, [], plans))

    return tmp_path, by_list, by_history


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
    return rng.choice(sorted(folder.glob("data/records/*/*/seed-*.json")))


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
    others = {
        json.loads(p.read_text())["provenance"]["commit"] for p in folder.glob("data/records/*/*/*.json")
    }
    forge(path, provenance__commit=rng.choice(sorted(others - {mine})))


def other_arrays(folder, rng):
    one, two = rng.sample(sorted(folder.glob("data/records/*/*/seed-*.npz")), 2)
    shutil.copyfile(two, one)


def exchanged_arrays(folder, rng):
    one, two = rng.sample(sorted(folder.glob("data/records/*/*/seed-*.npz")), 2)
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


def other_benchmark(folder, rng):
    path = rng.choice(sorted(folder.glob("data/benchmarks/*.json")))
    forge(path, environment__device_name="NVIDIA H200")


def no_benchmark(folder, rng):
    rng.choice(sorted(folder.glob("data/benchmarks/*.json"))).unlink()


def permuted_labels(folder, rng):
    path = folder / "data/labels/cifar100.json"
    content = json.loads(path.read_text())
    rng.shuffle(content["classes"])
    path.write_text(json.dumps(content))


def other_labels(folder, rng):
    """The same number of images of each class, two of them exchanged."""
    path = folder / "data/labels/cifar100.json"
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
    "machine of a benchmark": other_benchmark,
    "no benchmark": no_benchmark,
    "classes": permuted_labels,
    "labels": other_labels,
}


def test_every_forgery_is_refused(copied, times, tally):
    folder, by_list, by_history = copied
    assert by_list() == by_history() == []
    rng = random.Random(3)
    clean = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    kept = 0
    for plant in list(FORGERIES.values()) * times:
        plant(folder, rng)
        kept += bool(by_list() and by_history())
        for path in folder.rglob("*.*"):
            if path.is_file() and path not in clean:
                path.unlink()
        for path, content in clean.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
    tally("forged records, arrays or labels", len(FORGERIES) * times, kept)


def test_earlier_plans_are_in_the_history_and_were_only_added_to(history, tmp_path):
    now = [p.cell for p in load_plan(ROOT / "plans/text-later.yaml")]
    earlier = set()
    for commit in committed._git(ROOT, "log", "--format=%H", "--", "plans/text-later.yaml").decode().split():
        content = committed._git(ROOT, "show", f"{commit}:plans/text-later.yaml")
        (tmp_path / "text-later.yaml").write_bytes(content)
        before = [p.cell for p in load_plan(tmp_path / "text-later.yaml")]
        assert now[: len(before)] == before
        earlier.add(committed.sha256(tmp_path / "text-later.yaml"))
    assert committed.EARLIER.keys() <= earlier


def test_accuracy_seeds_and_labels_are_checked_without_a_history_too(copied):
    folder, _, by_history = copied
    reasons = []
    for number, plant in enumerate(("accuracy", "dirty", "one seed more", "labels")):
        FORGERIES[plant](folder, random.Random(number))
        by_history()  # which forges the list as well
        before, reasons = reasons, list(committed.refuse(folder, None, [], committed.planned()))
        assert len(reasons) > len(before), plant


def test_a_committed_record_that_is_not_listed_is_refused_and_a_new_one_stops_nothing(copied):
    folder, by_list, _ = copied
    assert by_list() == []
    one_seed_more(folder, random.Random(1))
    (new,) = files(folder) - committed.read_list(folder).keys()
    plans = committed.planned()
    assert list(committed.refuse(folder, None, [], plans)) == []
    (reason,) = [r for r in committed.refuse(folder, None, [new], plans) if committed.LIST in r]
    assert reason.startswith(f"{new}: is committed and not in data/digests.txt")


def test_a_missing_list_is_refused(copied):
    folder, by_list, _ = copied
    by_list()
    (folder / committed.LIST).unlink()
    assert "data/digests.txt: missing or empty" in committed.refuse(folder, None, [], committed.planned())


def test_the_list_takes_new_data_and_keeps_the_digests_of_records_and_benchmarks(copied, monkeypatch):
    folder, by_list, _ = copied
    by_list()
    before = committed.read_list(folder)
    other_benchmark(folder, random.Random(1))
    one_seed_more(folder, random.Random(1))
    monkeypatch.setattr(committed, "read_tracked", files)
    (folder / "data/photo/photo.jpg").write_bytes(b"another")
    committed.write_list(folder)
    after = committed.read_list(folder)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == (files(folder) - before.keys()) | {"data/photo/photo.jpg"}
    assert list(after) == sorted(after)


def test_a_plan_that_records_name_is_what_it_was_when_they_were_made(copied):
    folder, _, by_history = copied
    for name in ("text/roll", "text/alibi"):
        shutil.copytree(ROOT / "data/records" / name, folder / "data/records" / name)
    assert not [reason for reason in by_history() if "plans/" in reason]
    for name, old, new in (
        ("text", "level 0.05", "level 0.5"),
        ("text-later", "by that rule", "by any rule"),
    ):
        plan = folder / f"plans/{name}.yaml"
        text = plan.read_text()
        assert old in text
        plan.write_text(text.replace(old, new))
        assert any(reason.startswith(f"plans/{name}.yaml: is not the plan that") for reason in by_history())
        plan.unlink()
        assert any(reason.startswith(f"plans/{name}.yaml: is not the plan that") for reason in by_history())
