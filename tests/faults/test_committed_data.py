"""The committed records, benchmarks, plans and labels are what was committed, and a forged one is refused."""

import base64
import json
import random
import shutil
from functools import partial

import numpy as np
import pytest
from damage import changed, exchange

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


@pytest.mark.parametrize("known", [False, True])
def test_the_committed_data_agree_with_the_list_and_the_plans_and_are_what_was_committed(known, request):
    """With the history of git, and without it."""
    history = request.getfixturevalue("history") if known else None
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


def rewrite(path, change):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content)))


def draw(folder, rng, suffix=".json"):
    return rng.choice(sorted(folder.glob(f"data/records/*/*/seed-*{suffix}")))


def another_value(folder, rng):
    """In a record or a benchmark."""
    some = [draw(folder, rng), draw(folder, rng), *sorted(folder.glob("data/benchmarks/*.json"))]
    rewrite(rng.choice(some), lambda content: changed(content, rng))


def more_right(folder, rng, bits_too=True):
    """A higher accuracy, whose bits agree or not."""

    def change(record):
        test = record["test"]
        bits = unpack_bits(test["correct"], test["images"])
        bits[rng.sample(sorted(np.flatnonzero(~bits)), 3)] = True
        correct = pack_bits(bits) if bits_too else test["correct"]
        return record | {"test": test | {"accuracy": bits.mean(), "correct": correct}}

    rewrite(draw(folder, rng), change)


def dirty(folder, rng):
    rewrite(draw(folder, rng), lambda r: r | {"provenance": r["provenance"] | {"dirty": True}})


def exchanged_arrays(folder, rng):
    exchange(*rng.sample(sorted(folder.glob("data/records/*/*/seed-*.npz")), 2))


def no_file(folder, rng):
    some = [draw(folder, rng), draw(folder, rng, ".npz"), *folder.glob("data/benchmarks/*.json")]
    rng.choice(some).unlink()


def one_seed_more(folder, rng):
    path = draw(folder, rng)
    target = path.with_name("seed-9.json")
    shutil.copyfile(path, target)
    rewrite(target, lambda record: record | {"seed": 9})


def other_labels(folder, rng):
    """The same number of images of each class, two of them exchanged."""
    path = folder / "data/labels/cifar100.json"
    content = json.loads(path.read_text())
    labels = bytearray(base64.b64decode(content["labels"]))
    one = rng.randrange(len(labels))
    two = next(i for i in range(len(labels)) if labels[i] != labels[one])
    labels[one], labels[two] = labels[two], labels[one]
    path.write_text(json.dumps(content | {"labels": base64.b64encode(labels).decode()}))


FORGERIES = [another_value] * 8
FORGERIES += [more_right, dirty, exchanged_arrays, no_file, no_file, one_seed_more, other_labels]


def test_every_forgery_is_refused(copied, times, tally):
    folder, by_list, by_history = copied
    assert by_list() == by_history() == []
    rng = random.Random(3)
    clean = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    kept = 0
    for plant in FORGERIES * times:
        plant(folder, rng)
        kept += bool(by_list() and by_history())
        for path in [path for path in folder.rglob("*.*") if path.is_file()]:
            if path not in clean:
                path.unlink()
        for path, content in clean.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
    tally("forged records, arrays or labels", len(FORGERIES) * times, kept)


def test_earlier_plans_are_in_the_history_and_were_only_added_to(history, tmp_path):
    now = [p.run_id for p in load_plan(ROOT / "plans/text-later.yaml")]
    earlier = set()
    for commit in committed._git(ROOT, "log", "--format=%H", "--", "plans/text-later.yaml").decode().split():
        content = committed._git(ROOT, "show", f"{commit}:plans/text-later.yaml")
        (tmp_path / "text-later.yaml").write_bytes(content)
        before = [p.run_id for p in load_plan(tmp_path / "text-later.yaml")]
        assert now[: len(before)] == before
        earlier.add(committed.sha256(tmp_path / "text-later.yaml"))
    assert committed.EARLIER.keys() <= earlier


def test_accuracy_seeds_and_labels_are_checked_without_a_history_too(copied):
    folder, _, by_history = copied
    reasons = []
    better = partial(more_right, bits_too=False)
    for number, plant in enumerate((better, dirty, one_seed_more, other_labels)):
        plant(folder, random.Random(number))
        by_history()  # which forges the list as well
        before, reasons = reasons, list(committed.refuse(folder, None, [], committed.planned()))
        assert len(reasons) > len(before), plant


def test_what_is_committed_must_be_listed_and_a_new_record_stops_nothing(copied):
    folder, by_list, _ = copied
    assert by_list() == []
    one_seed_more(folder, random.Random(1))
    (new,) = files(folder) - committed.read_list(folder).keys()
    plans = committed.planned()
    assert list(committed.refuse(folder, None, [], plans)) == []
    (reason,) = [r for r in committed.refuse(folder, None, [new], plans) if committed.LIST in r]
    assert reason.startswith(f"{new}: is committed and not in data/digests.txt")
    (folder / committed.LIST).unlink()
    assert "data/digests.txt: missing or empty" in committed.refuse(folder, None, [], plans)


def test_the_list_takes_new_data_and_keeps_the_digests_of_records_and_benchmarks(copied, monkeypatch):
    folder, by_list, _ = copied
    by_list()
    before = committed.read_list(folder)
    benchmark = sorted(folder.glob("data/benchmarks/*.json"))[0]
    rewrite(benchmark, lambda content: content | {"rounds": 99})
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
        for forge in (lambda: None, plan.unlink):
            forge()
            assert any(reason.startswith(f"plans/{name}.yaml: is not the plan") for reason in by_history())
