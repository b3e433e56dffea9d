"""The data sets: what is fetched, what is refused, what is held out. No test leaves this machine."""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from filelock import FileLock
from sklearn.datasets import load_digits
from torchvision.datasets import CIFAR100

from published import Server, body, published
from refusals import refused
from rollpe_lab.commands.options import DATASETS as choices
from rollpe_lab.training import load_dataset
from rollpe_lab.training.data import Split
from rollpe_lab.training.datasets import DATASETS, TEXTS
from rollpe_lab.training.fetch import RETRIES, fetch, verify
from rollpe_lab.training.models import shape_of
from shared import ROOT, stand_in

FOLDER, ARCHIVE = CIFAR100.base_folder, CIFAR100.filename
REAL = ROOT / "data"
CLASSES = 4
COPIES = ((3, 3 + CLASSES), (10, 11), (50, 90))  # equal training images, some with two labels


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes bytes as Python 2 wrote its strings, the way the published files are written."""

    def save_bytes(self, text: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, bytes: save_bytes}  # type: ignore[attr-defined]


def pickled(content: object) -> bytes:
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(content)
    # NumPy 1, which wrote the real files, kept its functions in numpy.core.
    return stream.getvalue().replace(b"numpy._core", b"numpy.core")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Small files in CIFAR-100's format."""
    rng = np.random.default_rng(0)

    def images(count: int) -> dict[str, object]:
        data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        return {"data": data, "fine_labels": [i % CLASSES for i in range(count)]}

    train, test = images(200), images(40)
    for one, other in COPIES:
        train["data"][other] = train["data"][one]  # type: ignore[index]
    meta = {"fine_label_names": [f"class {i}" for i in range(CLASSES)]}
    return {"train": pickled(train), "test": pickled(test), "meta": pickled(meta)}


@pytest.fixture
def server(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)  # before another try
    with published(files, {"notes": b"?", "../../outside": b"?"}) as there:
        yield there


def states(root: Path) -> list[str]:
    return [check.state for check in verify("cifar100", root)]


# Fetching


def test_fetch_brings_exactly_the_published_files(server: Server, files: dict, tmp_path: Path):
    root = tmp_path / "data"
    checks = fetch("cifar100", root, progress=False)
    assert [check.state for check in checks] == ["ok"] * 3
    for name, content in files.items():
        assert (root / FOLDER / name).read_bytes() == content
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("[!.]*") if path.is_file()}
    assert found == {f"data/{ARCHIVE}"} | {f"data/{FOLDER}/{name}" for name in files}


def test_a_download_that_breaks_is_tried_again(server: Server, tmp_path: Path):
    server.script = [body(server.archive)[:1000]] * RETRIES
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}
    (tmp_path / ARCHIVE).unlink()
    fetch("cifar100", tmp_path, progress=False)
    assert server.asked == RETRIES + 1, "nobody is asked for what is there"


def test_a_download_that_fails_says_how_to_go_on_by_hand(server: Server, tmp_path: Path):
    server.script = [b"HTTP/1.1 503 No\r\n\r\n"] * (RETRIES + 1)
    with refused(rf"503 Server Error.*place {ARCHIVE} in .*, and run the command again"):
        fetch("cifar100", tmp_path, progress=False)


def test_an_answer_with_other_bytes_is_refused_and_leaves_nothing(server: Server, tmp_path: Path):
    """An archive with one byte exchanged, of the right length; the next download works."""
    server.script = [body(server.archive[:-1] + bytes([server.archive[-1] ^ 1]))] * (RETRIES + 1)
    with refused(r"cannot download .* hash .*does not match"):
        fetch("cifar100", tmp_path, progress=False)
    assert not list(tmp_path.rglob("[!.]*"))
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}


@pytest.mark.parametrize("damage", [0, 1])
def test_an_archive_placed_by_hand_is_taken_if_it_is_whole(server: Server, tmp_path: Path, damage: int):
    (tmp_path / ARCHIVE).write_bytes(server.archive[: len(server.archive) - damage])
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}
    assert server.asked == damage and (tmp_path / ARCHIVE).read_bytes() == server.archive


def test_of_two_fetches_one_waits_and_takes_what_the_other_got(server: Server, files: dict, tmp_path: Path):
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / f".{ARCHIVE}.lock"):
            waiting = pool.submit(fetch, "cifar100", tmp_path, progress=False)
            assert wait([waiting], timeout=0.2).not_done
            (tmp_path / FOLDER).mkdir()
            for name, content in files.items():
                (tmp_path / FOLDER / name).write_bytes(content)
        assert {check.state for check in waiting.result(10)} == {"ok"}
    assert server.asked == 0


@pytest.mark.parametrize("name", [f"{ARCHIVE}", f"{FOLDER}/train"])
def test_a_pipe_in_the_place_of_a_file_is_one_line_and_no_wait(server: Server, tmp_path: Path, name: str):
    (tmp_path / FOLDER).mkdir()
    os.mkfifo(tmp_path / name)
    with refused(r"and no file|is missing"):
        load_dataset("cifar100", tmp_path) if name.endswith("train") else fetch("cifar100", tmp_path, False)


def test_fetch_repairs_what_is_damaged(server: Server, tmp_path: Path):
    fetch("cifar100", tmp_path, progress=False)
    train = tmp_path / FOLDER / "train"
    train.write_bytes(train.read_bytes()[:-1] + b"!")
    assert states(tmp_path) == ["damaged", "ok", "ok"]
    fetch("cifar100", tmp_path, progress=False)
    assert states(tmp_path) == ["ok"] * 3
    assert server.asked == 1


# Refusing


@pytest.mark.parametrize("name", ["train", "test", "meta"])
@pytest.mark.parametrize("state", ["missing", "damaged"])
def test_a_bad_file_is_named_and_never_unpickled(server: Server, tmp_path: Path, name: str, state: str):
    fetch("cifar100", tmp_path, progress=False)
    path, sprung = tmp_path / FOLDER / name, tmp_path / "sprung"
    path.unlink()
    if state == "damaged":
        path.write_bytes(f"cos\nmkdir\n(S'{sprung}'\ntR.".encode())
    (check,) = (check for check in verify("cifar100", tmp_path) if check.state != "ok")
    assert (check.path, check.state, check.repair) == (path, state, "rollpe data fetch cifar100")
    with refused() as error:
        load_dataset("cifar100", tmp_path, held_out=20)
    assert str(error.value) == f"{path} is {state}: run `rollpe data fetch cifar100`"
    assert not sprung.exists()


@pytest.mark.parametrize("name", DATASETS)
def test_a_folder_that_cannot_be_made_is_refused_whatever_the_data(name: str, tmp_path: Path):
    (tmp_path / "file").touch()
    with refused("cannot write there"):
        fetch(name, tmp_path / "file/deeper", progress=False)
    if name not in ("cifar100", *TEXTS):
        assert fetch(name, tmp_path) == verify(name, tmp_path) == []


def test_the_command_line_knows_the_same_names():
    assert tuple(DATASETS) == choices.choices


@pytest.mark.parametrize("call", [fetch, verify, load_dataset])
def test_an_unknown_name_lists_the_known_ones(call, tmp_path: Path):
    with refused("'mnist' is unknown: choose one of digits, place, offset, points, points-rounded, cifar100"):
        call("mnist", tmp_path)


@pytest.mark.parametrize("held_out", [-1, 719, 5000])
def test_an_impossible_held_out_set_is_refused(held_out: int):
    with refused(f"held_out={held_out}: digits allows 0 to 718"):
        load_dataset("digits", held_out=held_out)


# Splitting


def keys(split: Split) -> list[bytes]:
    return [image.tobytes() for image in split.images.numpy()]


@pytest.fixture
def small(server: Server, tmp_path: Path) -> Path:
    fetch("cifar100", tmp_path, progress=False)
    return tmp_path


def test_what_is_read_is_what_was_written_and_copies_stay_on_one_side(small: Path, files: dict):
    data = load_dataset("cifar100", small, held_out=0)
    train = pickle.loads(files["train"], encoding="latin1")
    assert data.classes == [f"class {i}" for i in range(CLASSES)]
    assert data.train.images.dtype == torch.uint8 and data.train.images.shape == (200, 3, 32, 32)
    assert (data.train.images.reshape(200, -1).numpy() == train["data"]).all()
    assert data.train.labels.tolist() == train["fine_labels"]
    assert (len(data.held_out), len(data.test)) == (0, 40)
    for held_out in (4, 20, 39, 80):
        data = load_dataset("cifar100", small, held_out=held_out)
        assert len(data.held_out) == held_out and len(data.train) == 200 - held_out
        assert not set(keys(data.train)) & set(keys(data.held_out))


@pytest.mark.parametrize("held_out", [1, 57, 180, 400])
def test_the_digits_are_all_there_once_and_split_in_proportion_to_their_classes(held_out: int):
    data, original = load_dataset("digits", held_out=held_out), load_digits()
    gray = np.rint(original.images * 255 / 16).astype(np.uint8)
    assert sorted(keys(data.train) + keys(data.held_out) + keys(data.test)) == sorted(map(bytes, gray))
    by_image = dict(zip(map(bytes, gray), original.target, strict=True))
    for part in (data.train, data.held_out, data.test):
        assert [by_image[image] for image in keys(part)] == part.labels.tolist()
    for part, count in ((data.held_out, held_out), (data.test, 360)):
        pool = original.target if count == 360 else torch.cat((data.train.labels, data.held_out.labels))
        wanted = count * np.bincount(pool, minlength=10) / len(pool)
        assert len(part) == count and (abs(np.bincount(part.labels, minlength=10) - wanted) < 1).all()


def test_the_split_is_the_same_every_time_and_smaller_ones_lie_inside_larger_ones():
    first, again, smaller = (load_dataset("digits", held_out=n) for n in (180, 180, 60))
    assert keys(first.held_out) == keys(again.held_out) and keys(first.train) == keys(again.train)
    assert set(keys(smaller.held_out)) < set(keys(first.held_out))
    assert keys(first.test) == keys(smaller.test)
    place = {key: index for index, key in enumerate(keys(load_dataset("digits", held_out=0).train))}
    places = np.array([place[key] for key in keys(first.held_out)]) / len(place)
    assert abs(places.mean() - 0.5) < 4 / np.sqrt(12 * len(places)), "not the first of each class"


def test_mean_and_std_are_those_of_the_training_pixels(small: Path):
    for data in (load_dataset("digits"), load_dataset("cifar100", small, held_out=20)):
        pool = torch.cat((data.train.images, data.held_out.images)).double() / 255
        torch.testing.assert_close(torch.tensor(data.mean).double(), pool.mean(dim=(0, 2, 3)))
        torch.testing.assert_close(torch.tensor(data.std).double(), pool.std(dim=(0, 2, 3), correction=0))


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "cifar100"])
def test_a_data_set_has_the_shape_and_the_labels_that_are_known_before(name: str, tmp_path: Path):
    context = 16 if name in TEXTS else None
    data = load_dataset(name, context=context)
    assert shape_of(stand_in(name, context)) == shape_of(data)
