"""What a record promises: it comes back as it was written, or says which file is damaged."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from refusals import FULL, raising, refused
from rollpe.errors import InputError
from rollpe_lab import hashes
from rollpe_lab import records as recording
from rollpe_lab.files import write_atomically
from rollpe_lab.hashes import source_hash
from rollpe_lab.records import (
    Record,
    RunId,
    claim,
    comparable,
    environment,
    find_arrays,
    pack_bits,
    read_arrays,
    read_record,
    read_records,
    record,
    record_path,
    slug,
    unpack_bits,
    write_arrays,
    write_record,
)
from rollpe_lab.records.provenance import SOURCE_VARIABLE, now, provenance
from rollpe_lab.records.record import check_comparable
from shared import ROOT, make_record

PACKAGE_PARENT = Path(recording.__file__).parents[1]


CONFIG = {"name": "quick", "epochs": 2, "augmentation": {"mixup": 0.8, "flip": 0.5}}
ROW = {"epoch": 1, "steps": 19, "learning_rate": 0.1 + 0.2, "train_loss": 2 / 3, "held_out_loss": None}
ROW |= {"held_out_accuracy": None, "images_per_second": 1234.5, "seconds": 1e-7}


def make(images: int = 37, draw: int = 0, **changes) -> Record:
    """A record of random bits, with numbers that have no short decimals."""
    bits = np.random.default_rng(draw).random(images) < 0.7
    test = {"loss": np.pi, "accuracy": float(bits.mean()), "images": images, "correct": pack_bits(bits)}
    values = {"config": CONFIG, "history": [ROW], "test": test, "resolutions": {"24": 0.5}}
    values |= {"environment": environment("cpu").model_dump()}
    return Record.model_validate(make_record(recipe="quick").model_dump() | values | changes)


# Round trips


@pytest.mark.parametrize("draw", range(5))
def test_a_record_comes_back_as_it_was_written(tmp_path, draw):
    record = make(images=1 + 97 * draw, draw=draw, seed=draw, encoding_options={"nyquist": "odd"})
    path = write_record(tmp_path, record)
    assert read_record(path) == record
    assert path == tmp_path / "quick" / "roll@nyquist=odd" / f"seed-{draw}.json"
    assert path == record_path(tmp_path, record) == record_path(tmp_path, record.run_id)


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=100), st.integers(1, 200))
def test_bits_come_back_as_they_were_packed_and_those_of_another_number_of_bytes_are_refused(bits, images):
    assert unpack_bits(pack_bits(np.array(bits)), len(bits)).tolist() == bits
    if -(-len(bits) // 8) != -(-images // 8):
        with pytest.raises(ValueError, match="bytes"):
            unpack_bits(pack_bits(np.array(bits)), images)


def test_records_from_before_arrays_had_a_digest_are_read_with_their_arrays(tmp_path):
    path = write_record(tmp_path, make(), which=np.zeros(3))
    content = json.loads(path.read_text())
    del content["arrays_sha256"], content["provenance"]["plan"]
    path.write_text(json.dumps(content))
    assert read_record(path) == make()
    assert read_arrays(path)["which"].tolist() == [0, 0, 0]


def test_arrays_are_taken_from_the_first_folder_that_has_them(tmp_path):
    for number, folder in enumerate(("first", "second")):
        write_record(tmp_path / folder, make(), which=np.array(number))
    write_record(tmp_path / "bare", make())
    folders = [tmp_path / name for name in ("absent", "bare", "second", "first")]
    assert find_arrays(make(), folders)["which"] == 1
    assert find_arrays(make(), folders[:2]) == {} and read_records(tmp_path / "absent") == []


# Names


def test_a_slug_sorts_its_options_and_is_the_bare_name_without_any():
    assert slug("learned+roll", {}) == "learned+roll"
    assert slug("roll", {"width": 16, "direction": -1}) == "roll@direction=-1,width=16"


nasty = st.text('aZ0 ./\\:*?"<>|%@=,+~é\n\0', max_size=6)
plain = st.one_of(
    st.integers(-9, 9), st.booleans(), st.none(), nasty, st.lists(st.integers(-9, 9), max_size=2)
)
options = st.dictionaries(st.text("abyz_", min_size=1, max_size=4), plain, max_size=3)


@settings(deadline=None)
@given(options)
def test_a_slug_is_one_harmless_folder_name(chosen):
    text = slug("roll", chosen)
    assert Path(text).name == text and not text.startswith(".")
    assert not set(text) & set(" /\\:*?\"<>|'\n\0")


@settings(deadline=None)
@given(st.dictionaries(nasty, nasty, max_size=2), st.dictionaries(nasty, nasty, max_size=2))
def test_different_text_options_have_different_slugs(a, b):
    assert (slug("roll", a) == slug("roll", b)) == (a == b)


@pytest.mark.parametrize("recipe", ["../up", ".hidden", "a/b", "two words", ""])
def test_a_recipe_name_cannot_leave_the_folder_of_records(recipe):
    for build in (partial(RunId, encoding="roll", seed=0), make):
        with pytest.raises(ValidationError):
            build(recipe=recipe)


# Nonsense is refused

TEST = make().test.model_dump()


@pytest.mark.parametrize(
    "changes",
    [
        {"throughput": float("nan")},
        {"seed": -1},
        {"history": [{"epoch": 1}]},
        {"surprise": 1},
        {"resolutions": {"24": 5.0}},
        {"shifts": {"far": 0.1}},
        {"arrays_sha256": "0"},
        *({"test": TEST | wrong} for wrong in ({"accuracy": 0.123}, {"images": 1000}, {"correct": "x!"})),
    ],
)
def test_a_record_that_says_nonsense_cannot_be_built(changes):
    with pytest.raises(ValidationError):
        make(**changes)


def edited(**changes):
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def written(content):
    return lambda path: path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "not JSON"),
        (written(b""), "not JSON"),
        (written(b"\xff\xfe\x00"), "not JSON"),
        (written(b"[" * 100_000), "not JSON"),
        (written(b"[]"), "schema_version=None"),
        (edited(schema_version=99), "schema_version=99"),
        (edited(config={"\ud800": 1}), "cannot be printed"),
        (edited(config={"name": "<script>alert(1)</script>"}), "holds <, >"),
        (edited(config={"name": "\x1b]0;title\x07"}), "cannot be printed"),
        (edited(config={"name": "\u202eyas"}), "cannot be printed"),
        (edited(encoding="<img src=x onerror=alert(1)>"), "holds <, >"),
        (edited(encoding=".."), "encoding: String should match pattern"),
        (edited(encoding="=HYPERLINK(0)"), "encoding: String should match pattern"),
        (edited(encoding_options={"width": "\\input{x}"}), "is no word"),
        (edited(encoding_options={"a b": 1}), "is no word"),
        (edited(encoding_options={"width": {"a": 1}}), "is no word"),
        (
            edited(provenance=json.loads(make().provenance.model_dump_json()) | {"finished": "=1+1"}),
            "finished",
        ),
        (edited(test=TEST | {"correct": pack_bits(np.ones(37))}), "bits"),
        (edited(throughput=None), "throughput"),
        (edited(**{"two\nlines": 3}), "cannot be printed"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "no file"),
        (lambda path: path.rename(path.with_name("seed-2.json")), "Move it there"),
    ],
)
def test_a_damaged_record_is_one_line_that_names_the_file(tmp_path, damage, says):
    path = write_record(tmp_path, make())
    path.with_name(f".{path.name}.123.tmp").write_text("half a record is none")
    damage(path)
    with refused() as error:
        read_records(tmp_path)
    assert str(path.parent) in str(error.value) and says in str(error.value)


def test_a_record_that_another_program_wrote_is_read(tmp_path):
    path = write_record(tmp_path, record := make())
    content = record.model_dump(mode="json")
    content["environment"]["device_name"] = "Prozessor für Züge"
    path.write_text(json.dumps(content, indent="\t"))  # with ü as an escape, and tabs
    assert read_record(path).environment.device_name == "Prozessor für Züge"


def pickled(path):
    np.savez(path, trap=np.array([{}], dtype=object))


def without_a_name(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def bomb(path):
    np.savez_compressed(path, zeros=np.zeros(20_000_000))
    assert path.stat().st_size < 10**6


def crowd(path):
    np.savez(path, **{f"a{i}": np.zeros(1, bool) for i in range(1001)})


@pytest.mark.parametrize(
    "damage", [pickled, without_a_name, written(b"PK nothing"), written(b""), os.mkfifo, bomb, crowd]
)
def test_what_is_no_archive_of_arrays_is_one_line(tmp_path, damage):
    path = tmp_path / "seed-0.json"
    damage(path.with_suffix(".npz"))
    with refused(r"seed-0\.npz"):
        read_arrays(path)


def test_a_link_that_was_laid_beside_a_record_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    path = record_path(tmp_path, make())
    path.parent.mkdir(parents=True)
    for name in (f".{path.name}.{os.getpid()}.tmp", f".{path.name}.guessed.tmp"):
        path.with_name(name).symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_record(tmp_path, make())
    monkeypatch.undo()
    write_record(tmp_path, make())
    assert victim.read_text() == "mine" and read_record(path) == make()


def test_runs_of_one_name_from_two_versions_of_a_file_are_not_comparable(tmp_path):
    old, new = (
        make(seed=seed, provenance=make().provenance.model_copy(update={"encoding_hash": str(seed)}))
        for seed in (1, 2)
    )
    assert comparable(old, new) == ["the file that defines roll has changed between them"]
    others = make(encoding="none", seed=1), make(encoding="none", seed=2)
    check_comparable([old, *others])
    with refused("seed-1 and .*seed-2 are not comparable: the file that defines roll"):
        check_comparable([*others, old, new])


def test_arrays_come_back_as_they_were_written_and_those_of_another_record_are_refused(tmp_path):
    path = write_record(tmp_path, make(), ring=np.arange(6.0).reshape(2, 3), names=np.array(["a", "b"]))
    loaded = read_arrays(path)
    assert loaded.keys() == {"ring", "names"} and loaded["names"].tolist() == ["a", "b"]
    assert loaded["ring"].tolist() == [[0, 1, 2], [3, 4, 5]]
    old = path.with_suffix(".npz").read_bytes()
    write_record(tmp_path, make(draw=1), which=np.ones(3))
    assert read_arrays(path)["which"].tolist() == [1, 1, 1]
    path.with_suffix(".npz").write_bytes(old)  # as if a run had been killed between both files
    with pytest.raises(InputError, match=r"seed-0\.npz"):
        read_arrays(path)
    with pytest.raises(TypeError, match="objects"):
        write_arrays(path, trap=np.array([{}], dtype=object))


# Reading many


def test_records_are_found_sorted_and_filtered(tmp_path):
    cells = [
        RunId(recipe=recipe, encoding=encoding, encoding_options=chosen, seed=seed)
        for recipe in ("quick", "strong")
        for encoding, chosen in (("none", {}), ("roll", {}), ("roll", {"width": 16}))
        for seed in (0, 2, 10)
    ]
    for cell in random.Random(0).sample(cells, len(cells)):
        write_record(tmp_path, make(**cell.model_dump()))
    assert [record.run_id for record in read_records(tmp_path)] == cells
    found = [record.run_id for record in read_records(tmp_path, recipe="strong", encoding="roll")]
    assert found == cells[12:15]
    found = [record.run_id for record in read_records(tmp_path, encoding="roll@width=16")]
    assert found == cells[6:9] + cells[15:]


# Atomic writing


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_record(tmp_path, make(draw=1))
    before = path.read_bytes()

    monkeypatch.setattr(os, "fsync", raising(FULL))
    with pytest.raises(OSError, match="No space") as error:
        write_record(tmp_path, make(draw=2))
    assert error.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_on_a_filesystem_without_locks_nothing_is_claimed(tmp_path, monkeypatch, code):
    monkeypatch.setattr("fcntl.flock", raising(OSError(code, os.strerror(code))))
    with refused("no lock to be had"), claim(tmp_path, make().run_id):
        pass


def test_what_a_killed_run_leaves_among_records_is_ignored_by_git(tmp_path):
    git(tmp_path, "init", "-q")
    shutil.copy(ROOT / ".gitignore", tmp_path)
    folder = "data/records/quick/roll"
    for name in (f"{folder}/.seed-0.json.12.tmp", "data/records/.locks/quick/roll/seed-0.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / folder / "seed-0.json").touch()
    git(tmp_path, "add", ".")
    assert git(tmp_path, "ls-files", "data") == f"{folder}/seed-0.json"


@pytest.mark.parametrize("make_it", [os.mkdir, os.mkfifo, lambda path: os.symlink(os.devnull, path)])
def test_nothing_but_a_file_is_written_over(tmp_path, make_it):
    path = tmp_path / "page.html"
    make_it(path)
    before = path.lstat()
    with pytest.raises(InputError, match=r"page\.html"):
        write_atomically(path, b"content")
    assert path.lstat() == before and list(tmp_path.iterdir()) == [path]


# Comparing


def mixed(**changes):
    return {"augmentation": CONFIG["augmentation"] | changes}


@pytest.mark.parametrize(
    ("config", "reasons"),
    [
        ({}, []),
        *(({key: "another"}, []) for key in sorted(record.NOT_COMPARED)),
        ({"epochs": 3}, ["epochs: 2 and 3"]),
        (mixed(mixup=0.0), ["augmentation.mixup: 0.8 and 0.0"]),
        ({"new": 0.9}, ["new: absent and 0.9"]),
        # keys that recipes had not yet, or have no longer, are what all runs did
        ({"qkv_bias": True}, []),
        ({"qkv_bias": False}, ["qkv_bias: True and False"]),
        (mixed(mix_probability=1.0), []),
        (mixed(mix_probability=0.5), ["augmentation.mix_probability: 1.0 and 0.5"]),
        (mixed(crop_fill="zero") | {"schedule": "cosine", "final_learning_rate": 0.0, "ema": None}, []),
        ({"ema": 0.9}, ["ema: None and 0.9"]),
    ],
)
def test_runs_are_comparable_that_differ_in_encoding_options_seed_and_what_changes_no_result(config, reasons):
    changed = make(encoding="none", seed=1, encoding_options={"width": 3}, config=CONFIG | config)
    assert comparable(make(), changed) == reasons
    assert len(comparable(changed, make())) == len(reasons)


def test_other_test_images_and_another_procedure_are_not_comparable():
    assert comparable(make(), make(test=make(images=41).test)) == ["test images: 37 and 41"]
    assert comparable(make(), make(protocol=2)) == ["protocol: 1 and 2"]


# Machine and source


def test_the_hash_of_the_source_sees_names_and_contents_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(hashes, "SRC", tmp_path)
    library, lab, book = (tmp_path / name for name in hashes.PACKAGES)
    for folder in (library, lab, book):
        folder.mkdir()
    (library / "a.py").write_text("x = 1")
    (lab / "b.yaml").write_text("y: 1")
    found = [source_hash()]
    (library / "notes.txt").write_text("not source")
    (book / "page.py").write_text("trains nothing")
    assert source_hash() == found[0]
    for change in (
        lambda: (library / "a.py").write_text("x = 2"),
        lambda: (library / "a.py").rename(lab / "a.py"),
        (lab / "a.py").unlink,
    ):
        change()
        found.append(source_hash())
    assert len(set(found)) == 4


def git(folder, *words):
    identity = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def traced():
    return provenance("rollpe train", now(), 1.0)


def test_provenance_knows_the_commit_and_whether_the_source_left_it(tmp_path, monkeypatch):
    package = tmp_path / "src" / "rollpe"
    package.mkdir(parents=True)
    monkeypatch.setattr(hashes, "SRC", package.parent)
    (package / "errors.py").write_text("x = 1")
    assert (traced().commit, traced().dirty) == ("unknown", None)
    git(tmp_path, "init", "-q")
    # A package that merely lies inside somebody's repository has no commit of its own.
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "theirs")
    assert (traced().commit, traced().dirty) == ("unknown", None)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "ours")
    assert (traced().commit, traced().dirty) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "notes.txt").write_text("outside the source")
    assert traced().dirty is False
    (package / "errors.py").write_text("x = 2")
    assert traced().dirty is True


def test_a_copy_without_a_repository_is_told_its_commit_and_sees_whether_it_left_it(tmp_path, monkeypatch):
    monkeypatch.setattr(hashes, "SRC", tmp_path)
    (tmp_path / "rollpe").mkdir()
    (tmp_path / "rollpe/errors.py").write_text("x = 1")
    monkeypatch.setenv(SOURCE_VARIABLE, f"0123abc {source_hash()}")
    assert (traced().commit, traced().dirty) == ("0123abc", False)
    (tmp_path / "rollpe/errors.py").write_text("x = 2")
    assert (traced().commit, traced().dirty) == ("0123abc", True)


def test_a_run_says_which_machine_but_neither_where_nor_whose():
    text = environment("cpu").model_dump_json()
    assert environment("cpu").device_name and environment("cpu").threads >= 1
    assert str(Path.home()) not in text and str(PACKAGE_PARENT) not in text
