"""The data sets: what is fetched, what is refused, what is held out. No test leaves this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from filelock import FileLock
from sklearn.datasets import load_digits
from torchvision.datasets import CIFAR100

from rollpe.errors import InputError
from rollpe_lab.training import fetch as fetching
from rollpe_lab.training import load_dataset
from rollpe_lab.training.data import Split, _ArraysOnly, read_test_labels
from rollpe_lab.training.fetch import RETRIES, fetch, verify
from shared import ROOT

FOLDER, ARCHIVE = CIFAR100.base_folder, CIFAR100.filename
REAL = ROOT / "data"
CLASSES = 4
COPIES = ((3, 3 + CLASSES), (10, 11), (50, 90))  # equal training images, some with two labels


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@dataclass
class Published:
    """A small archive in CIFAR-100's format, with torchvision's constants pointing at it."""

    files: dict[str, bytes]
    archive: bytes = b""


def pack(members: dict[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


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


def publish(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], archive: bytes) -> None:
    """Let torchvision's constants describe these files."""
    monkeypatch.setattr(CIFAR100, "tgz_md5", md5(archive))
    monkeypatch.setattr(CIFAR100, "train_list", [["train", md5(files["train"])]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", md5(files["test"])]])
    monkeypatch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": md5(files["meta"])})


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Published:
    rng = np.random.default_rng(0)

    def images(count: int) -> dict[str, object]:
        data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        return {"data": data, "fine_labels": [i % CLASSES for i in range(count)]}

    train, test = images(200), images(40)
    for one, other in COPIES:
        train["data"][other] = train["data"][one]  # type: ignore[index]
    meta = {"fine_label_names": [f"class {i}" for i in range(CLASSES)]}
    files = {"train": pickled(train), "test": pickled(test), "meta": pickled(meta)}
    members = {f"{FOLDER}/{name}": content for name, content in files.items()}
    archive = pack({**members, f"{FOLDER}/notes": b"?", f"{FOLDER}/../../outside": b"?"})
    publish(monkeypatch, files, archive)
    return Published(files, archive)


@dataclass
class Server:
    """What the loopback server sends, how it misbehaves, and what it was asked."""

    content: bytes = b""
    cuts: list[int] = field(default_factory=list)  # bytes after which the next connections close
    status: int = 200
    asked: int = 0


@pytest.fixture
def server(published: Published, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server(published.archive)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked += 1
            if state.status != 200:
                self.send_error(state.status)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(state.content)))
            self.end_headers()
            self.wfile.write(state.content[: state.cuts.pop(0)] if state.cuts else state.content)

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)  # before another try
    monkeypatch.setattr(CIFAR100, "url", f"http://127.0.0.1:{httpd.server_port}/{ARCHIVE}")
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def states(root: Path) -> list[str]:
    return [check.state for check in verify("cifar100", root)]


# Fetching


def test_fetch_brings_exactly_the_published_files(server: Server, published: Published, tmp_path: Path):
    root = tmp_path / "data"
    checks = fetch("cifar100", root, progress=False)
    assert [check.state for check in checks] == ["ok"] * 3
    for name, content in published.files.items():
        assert (root / FOLDER / name).read_bytes() == content
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("[!.]*") if path.is_file()}
    assert found == {f"data/{ARCHIVE}"} | {f"data/{FOLDER}/{name}" for name in published.files}


def test_a_second_fetch_asks_nobody(server: Server, tmp_path: Path):
    fetch("cifar100", tmp_path, progress=False)
    (tmp_path / ARCHIVE).unlink()
    fetch("cifar100", tmp_path, progress=False)
    assert server.asked == 1


def test_a_download_that_breaks_is_tried_again(server: Server, tmp_path: Path):
    server.cuts = [1000] * RETRIES
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}
    assert server.asked == RETRIES + 1


def test_half_an_archive_never_passes_for_a_whole_one(server: Server, tmp_path: Path):
    server.cuts = [2000] * (RETRIES + 1)
    with pytest.raises(InputError, match="cannot download") as error:
        fetch("cifar100", tmp_path, progress=False)
    one_line(error)
    assert list(tmp_path.glob("[!.]*")) == []
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}


def test_a_wrong_archive_is_refused_and_nothing_of_it_stays(server: Server, tmp_path: Path):
    server.content = pack({f"{FOLDER}/train": b"cos\nsystem\n(S'true'\ntR."})
    with pytest.raises(InputError, match="does not match the known hash") as error:
        fetch("cifar100", tmp_path, progress=False)
    one_line(error)
    assert list(tmp_path.glob("[!.]*")) == []


def test_of_two_fetches_one_waits_and_takes_what_the_other_got(
    server: Server, published: Published, tmp_path: Path
):
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / f".{ARCHIVE}.lock"):
            waiting = pool.submit(fetch, "cifar100", tmp_path, progress=False)
            assert wait([waiting], timeout=0.2).not_done
            (tmp_path / FOLDER).mkdir()
            for name, content in published.files.items():
                (tmp_path / FOLDER / name).write_bytes(content)
        assert {check.state for check in waiting.result(10)} == {"ok"}
    assert server.asked == 0


@pytest.mark.parametrize("name", [f"{ARCHIVE}", f"{FOLDER}/train"])
def test_a_pipe_in_the_place_of_a_file_is_one_line_and_no_wait(server: Server, tmp_path: Path, name: str):
    (tmp_path / FOLDER).mkdir()
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=r"and no file|is missing") as error:
        load_dataset("cifar100", tmp_path) if name.endswith("train") else fetch("cifar100", tmp_path, False)
    one_line(error)


def test_without_network_the_error_names_the_way_out(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        url = f"http://127.0.0.1:{closed.server_port}/{ARCHIVE}"
    monkeypatch.setattr(CIFAR100, "url", url)
    with pytest.raises(InputError) as error:
        fetch("cifar100", tmp_path / "data", progress=False)
    text = one_line(error)
    assert text.startswith(f"cannot download {url} (") and "refused" in text
    assert f"place {ARCHIVE} in {tmp_path / 'data'}/, and run the command again" in text


def test_an_error_of_the_server_is_named(server: Server, tmp_path: Path):
    server.status = 503
    with pytest.raises(InputError, match="503 Server Error"):
        fetch("cifar100", tmp_path, progress=False)


def test_an_archive_placed_by_hand_needs_no_network(server: Server, published: Published, tmp_path: Path):
    (tmp_path / ARCHIVE).write_bytes(published.archive)
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}
    assert server.asked == 0


def test_a_damaged_archive_is_replaced(server: Server, published: Published, tmp_path: Path):
    (tmp_path / ARCHIVE).write_bytes(published.archive[:-1])
    assert {check.state for check in fetch("cifar100", tmp_path, progress=False)} == {"ok"}
    assert (tmp_path / ARCHIVE).read_bytes() == published.archive


def test_fetch_repairs_only_what_is_damaged(server: Server, tmp_path: Path):
    fetch("cifar100", tmp_path, progress=False)
    train, test = tmp_path / FOLDER / "train", tmp_path / FOLDER / "test"
    untouched = test.stat().st_ino
    train.write_bytes(train.read_bytes()[:-1] + b"!")
    assert states(tmp_path) == ["damaged", "ok", "ok"]
    fetch("cifar100", tmp_path, progress=False)
    assert states(tmp_path) == ["ok"] * 3 and test.stat().st_ino == untouched
    assert server.asked == 1


def test_a_folder_that_cannot_be_written_is_one_line(server: Server, tmp_path: Path):
    (tmp_path / "data").write_text("a file where a folder is wanted")
    with pytest.raises(InputError) as error:
        fetch("cifar100", tmp_path / "data", progress=False)
    assert "cannot write there" in one_line(error)


@pytest.mark.parametrize("name", fetching.DATASETS)
def test_a_folder_that_cannot_be_made_is_refused_whatever_the_data(name: str, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write there") as error:
        fetch(name, tmp_path / "file/deeper", progress=False)
    one_line(error)


def test_progress_is_shown_only_when_wanted(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    fetch("cifar100", tmp_path / "quiet", progress=False)
    assert capsys.readouterr() == ("", "")
    fetch("cifar100", tmp_path / "shown", progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "100%" in shown.err


def test_the_digits_need_no_files(tmp_path: Path):
    assert fetch("digits", tmp_path) == verify("digits", tmp_path) == []


# Refusing


@pytest.mark.parametrize("name", ["train", "test", "meta"])
@pytest.mark.parametrize("state", ["missing", "damaged"])
def test_a_bad_file_is_named_and_never_unpickled(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, state: str
):
    fetch("cifar100", tmp_path, progress=False)
    path = tmp_path / FOLDER / name
    path.unlink()
    if state == "damaged":
        path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    (check,) = (check for check in verify("cifar100", tmp_path) if check.state != "ok")
    assert (check.path, check.state, check.repair) == (path, state, "rollpe data fetch cifar100")

    content = path.read_bytes() if path.exists() else None
    load = _ArraysOnly.load

    def watched(self: pickle.Unpickler) -> object:
        assert self.source != content  # type: ignore[attr-defined]
        return load(self)

    initialize = _ArraysOnly.__init__

    def remember(self: pickle.Unpickler, stream: io.BytesIO, **options: str) -> None:
        self.source = stream.getvalue()  # type: ignore[attr-defined]
        initialize(self, stream, **options)

    monkeypatch.setattr(_ArraysOnly, "__init__", remember)
    monkeypatch.setattr(_ArraysOnly, "load", watched)
    with pytest.raises(InputError) as error:
        load_dataset("cifar100", tmp_path, held_out=20)
    assert one_line(error) == f"{path} is {state}: run `rollpe data fetch cifar100`"


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_even_with_the_right_md5_only_arrays_are_unpickled(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sprung = tmp_path / "sprung"
    files = {**published.files, "train": pickle.dumps({"data": Trap(sprung)}, protocol=2)}
    publish(monkeypatch, files, b"")
    (tmp_path / FOLDER).mkdir()
    for name, content in files.items():
        (tmp_path / FOLDER / name).write_bytes(content)
    assert states(tmp_path) == ["ok"] * 3
    with pytest.raises(pickle.UnpicklingError, match="does not belong"):
        load_dataset("cifar100", tmp_path, held_out=20)
    assert not sprung.exists()
    pickle.loads(files["train"])  # the trap itself works
    assert sprung.exists()


@pytest.mark.parametrize("call", [fetch, verify, load_dataset])
def test_an_unknown_name_lists_the_known_ones(call, tmp_path: Path):
    with pytest.raises(InputError, match="'mnist' is unknown: choose one of digits, place, offset, cifar100"):
        call("mnist", tmp_path)


@pytest.mark.parametrize("held_out", [-1, 719, 5000])
def test_an_impossible_held_out_set_is_refused(held_out: int):
    with pytest.raises(InputError, match=f"held_out={held_out}: digits allows 0 to 718"):
        load_dataset("digits", held_out=held_out)


# Splitting


def keys(split: Split) -> list[bytes]:
    return [image.tobytes() for image in split.images.numpy()]


@pytest.fixture
def small(server: Server, tmp_path: Path) -> Path:
    fetch("cifar100", tmp_path, progress=False)
    return tmp_path


def test_what_is_read_is_what_was_written(small: Path, published: Published):
    data = load_dataset("cifar100", small, held_out=0)
    train = pickle.loads(published.files["train"], encoding="latin1")
    assert data.classes == [f"class {i}" for i in range(CLASSES)]
    assert data.train.images.dtype == torch.uint8 and data.train.images.shape == (200, 3, 32, 32)
    assert (data.train.images.reshape(200, -1).numpy() == train["data"]).all()
    assert data.train.labels.tolist() == train["fine_labels"]
    assert data.train.labels.dtype == torch.int64
    assert (len(data.held_out), len(data.test)) == (0, 40)


@pytest.mark.parametrize("held_out", [4, 20, 39, 80])
def test_copies_of_an_image_stay_on_one_side(small: Path, held_out: int):
    data = load_dataset("cifar100", small, held_out=held_out)
    assert len(data.held_out) == held_out and len(data.train) == 200 - held_out
    assert not set(keys(data.train)) & set(keys(data.held_out))


@pytest.mark.parametrize("held_out", [1, 10, 57, 180, 400])
def test_the_digits_are_split_in_proportion_to_their_classes(held_out: int):
    data = load_dataset("digits", held_out=held_out)
    pool = torch.cat((data.train.labels, data.held_out.labels)).bincount(minlength=10)
    wanted = held_out * pool / pool.sum()
    assert len(data.held_out) == held_out
    assert ((data.held_out.labels.bincount(minlength=10) - wanted).abs() < 1).all()
    tested = data.test.labels.bincount(minlength=10)
    assert ((tested - 360 * (pool + tested) / 1797).abs() < 1).all()


def test_the_digits_are_all_there_once():
    data = load_dataset("digits")
    assert [len(data.train), len(data.held_out), len(data.test)] == [1257, 180, 360]
    ours = [
        (image.numpy().tobytes(), int(label))
        for split in (data.train, data.held_out, data.test)
        for image, label in zip(split.images, split.labels, strict=True)
    ]
    original = load_digits()
    theirs = [
        (np.rint(image * 255 / 16).astype(np.uint8).tobytes(), int(label))
        for image, label in zip(original.images, original.target, strict=True)
    ]
    assert sorted(ours) == sorted(theirs) and len(set(ours)) == 1797
    assert data.train.images.shape[1:] == (1, 8, 8) and data.train.images.max() == 255


def test_the_split_is_the_same_every_time_and_smaller_ones_lie_inside_larger_ones():
    first, again, smaller = (load_dataset("digits", held_out=n) for n in (180, 180, 60))
    assert keys(first.held_out) == keys(again.held_out) and keys(first.train) == keys(again.train)
    assert set(keys(smaller.held_out)) < set(keys(first.held_out))
    assert keys(first.test) == keys(smaller.test)


def test_the_split_does_not_follow_the_order_of_the_file():
    """Were the first images of each class held out, their places would crowd at the beginning."""
    data = load_dataset("digits")
    pool = load_dataset("digits", held_out=0).train
    place = {key: index for index, key in enumerate(keys(pool))}
    places = np.array([place[key] for key in keys(data.held_out)]) / len(pool)
    assert abs(places.mean() - 0.5) < 4 / np.sqrt(12 * len(places))


def test_mean_and_std_are_those_of_the_training_pixels(small: Path):
    for data in (load_dataset("digits"), load_dataset("cifar100", small, held_out=20)):
        pool = torch.cat((data.train.images, data.held_out.images)).double() / 255
        torch.testing.assert_close(torch.tensor(data.mean).double(), pool.mean(dim=(0, 2, 3)))
        torch.testing.assert_close(torch.tensor(data.std).double(), pool.std(dim=(0, 2, 3), correction=0))


def test_the_labels_of_the_digits_are_those_of_their_test_images():
    labels, classes = read_test_labels("digits")
    assert labels.tolist() == load_dataset("digits").test.labels.tolist() and classes == list("0123456789")


def test_the_committed_labels_are_a_hundred_of_each_class():
    labels, classes = read_test_labels("cifar100", REAL)
    assert np.bincount(labels).tolist() == [100] * 100
    assert (classes[0], classes[-1]) == ("apple", "worm") and classes == sorted(classes)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "no labels"),
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"classes": []}', "damaged"),
        ('{"classes": [], "labels": "AAEC"}', "damaged"),
    ],
)
def test_labels_that_are_missing_or_damaged_are_one_line(tmp_path, content, named):
    if content is not None:
        (tmp_path / "labels").mkdir()
        (tmp_path / "labels/cifar100.json").write_text(content)
    with pytest.raises(InputError, match=named) as error:
        read_test_labels("cifar100", tmp_path)
    assert "\n" not in str(error.value) and "cifar100.json" in str(error.value)


@pytest.mark.skipif(
    not (REAL / FOLDER / "train").exists(),
    reason="CIFAR-100 is not in data/: run `rollpe data fetch cifar100`",
)
def test_the_real_cifar100_is_read_split_and_free_of_shared_images():
    assert states(REAL) == ["ok"] * 3
    data = load_dataset("cifar100", REAL)
    assert [len(data.train), len(data.held_out), len(data.test)] == [45000, 5000, 10000]
    assert data.held_out.labels.bincount().tolist() == [50] * 100
    assert data.train.labels.bincount().tolist() == [450] * 100
    assert data.test.labels.bincount().tolist() == [100] * 100
    assert (data.classes[0], data.classes[-1], len(data.classes)) == ("apple", "worm", 100)
    labels, classes = read_test_labels("cifar100", REAL)
    assert labels.tolist() == data.test.labels.tolist() and classes == data.classes
    assert not set(keys(data.train)) & set(keys(data.held_out))
    assert len(keys(data.train)) - len(set(keys(data.train))) == 14
    assert len(keys(data.test)) - len(set(keys(data.test))) == 2
    assert len({*keys(data.train), *keys(data.held_out)} & {*keys(data.test)}) == 10
    np.testing.assert_allclose(data.mean, (0.50708, 0.48655, 0.44092), atol=5e-6)
