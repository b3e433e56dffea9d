"""A server that lies, stalls and hangs up: a download is whole or refused, in bounded time and space."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import socket
import socketserver
import struct
import tarfile
import threading
import time
from pathlib import Path

import pytest
from torchvision.datasets import CIFAR100

from rollpe.errors import InputError
from rollpe.training import fetch

FILES = {name: random.Random(name).randbytes(3000) for name in ("train", "test", "meta")}
BOUND = 5.0  # seconds for one fetch, whatever the server does


def archive() -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in FILES.items():
            info = tarfile.TarInfo(f"{CIFAR100.base_folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


GOOD = archive()
OK, PARTIAL = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 206 Partial Content\r\n"


def body(content: bytes, status: bytes = OK, length: object = None) -> bytes:
    told = len(content) if length is None else length
    return status + f"Content-Length: {told}\r\n\r\n".encode() + content


def honest(start: int, rng: random.Random) -> bytes:
    return body(GOOD[start:], PARTIAL if start else OK)


def flipped(rng: random.Random) -> bytes:
    place = rng.randrange(len(GOOD))
    return GOOD[:place] + bytes([GOOD[place] ^ 1 << rng.randrange(8)]) + GOOD[place + 1 :]


def redirect(place: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()


def without_end(piece: bytes, pause: float = 0.0):
    """The piece again and again, for longer than anybody may listen."""
    until = time.monotonic() + BOUND
    while time.monotonic() < until:
        yield piece
        time.sleep(pause)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# Each answers one request: with bytes, with pieces of them, or by what it does to the connection.
FAULTS = {
    "cut": lambda start, rng: honest(start, rng)[: rng.randrange(len(GOOD) - start)],
    "cut without a length": lambda start, rng: OK + b"\r\n" + GOOD[: rng.randrange(len(GOOD))],
    "flipped bit": lambda start, rng: body(flipped(rng)),
    "flipped bit in a part": lambda start, rng: body(flipped(rng)[start:], PARTIAL if start else OK),
    "length": lambda start, rng: body(
        GOOD, length=rng.choice([0, -1, "", "abc", 1.5, 10**30, len(GOOD) - 1, len(GOOD) + 1, "9" * 5000])
    ),
    "error": lambda start, rng: b"HTTP/1.1 %d No\r\n\r\n" % rng.choice([204, 304, 400, 403, 404, 500, 503]),
    "page": lambda start, rng: body(b"<html>Sign in to go on</html>"),
    "page without a length": lambda start, rng: OK + b"\r\n<html>Sign in to go on</html>",
    "redirect": lambda start, rng: redirect(
        rng.choice(["/", "", "http://[", "http://127.0.0.1:1/", "file:///etc/passwd", "ftp://127.0.0.1:1/x"])
    ),
    "no such range": lambda start, rng: b"HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n",
    "another range": lambda start, rng: body(GOOD[rng.randrange(len(GOOD)) :], PARTIAL),
    "range nobody asked for": lambda start, rng: body(GOOD, PARTIAL),
    "body without end": lambda start, rng: (OK + b"\r\n", *without_end(bytes(1 << 16))),
    "chunks without end": lambda start, rng: (
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        *without_end(b"1000\r\n" + bytes(4096) + b"\r\n"),
    ),
    "no chunks": lambda start, rng: OK + b"Transfer-Encoding: chunked\r\n\r\n" + rng.randbytes(100),
    "slow body": lambda start, rng: without_end(OK + b"\r\nx", 0.02),
    "slow header": lambda start, rng: without_end(b"H", 0.02),
    "wait without end": lambda start, rng: without_end(b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "silence": lambda start, rng: without_end(b"", 0.02),
    "garbage": lambda start, rng: rng.randbytes(rng.randrange(200)),
    "header": lambda start, rng: OK + b"x" * 70_000,
    "headers": lambda start, rng: OK + b"X: y\r\n" * 200 + b"\r\n" + GOOD,
    "reset": lambda start, rng: (honest(start, rng)[: rng.randrange(len(GOOD) - start)], reset),
}


class Server(socketserver.ThreadingTCPServer):
    """Answers with what is next in its script, honestly at its end."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.rng = [], random.Random(0)


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        start = 0
        while (line := self.rfile.readline()).strip():
            if line.lower().startswith(b"range: bytes="):
                start = int(line.split(b"=")[1].rstrip(b"-\r\n"))
        answer = FAULTS[self.server.script.pop(0)] if self.server.script else honest
        try:
            pieces = answer(start, self.server.rng)
            for piece in [pieces] if isinstance(pieces, bytes) else pieces:
                piece(self.connection) if callable(piece) else self.wfile.write(piece)
        except OSError:
            pass  # the other side has hung up


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(CIFAR100, "tgz_md5", hashlib.md5(GOOD).hexdigest())
    sums = {name: hashlib.md5(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": sums["meta"]})
    monkeypatch.setattr(fetch, "ARCHIVE_BYTES", len(GOOD))
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    monkeypatch.setattr(fetch, "PATIENCE", 0.3)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as there:
        monkeypatch.setattr(CIFAR100, "url", f"http://127.0.0.1:{there.server_address[1]}/archive")
        thread = threading.Thread(target=there.serve_forever, args=(0.01,))
        thread.start()
        yield there
        there.shutdown()
        thread.join()


def survived(root: Path) -> bool:
    """Whether a fetch got everything or said in one line why not, in time, and left no more than it may."""
    begun = time.monotonic()
    try:
        fetch.fetch("cifar100", root, progress=False)
        good = all(check.state == "ok" for check in fetch.verify("cifar100", root))
    except InputError as error:
        good = "\n" not in str(error)
    left = sum(path.stat().st_size for path in root.glob("*.part"))
    return good and left <= len(GOOD) and time.monotonic() - begun < BOUND


def test_whatever_a_server_sends_a_download_is_whole_or_refused_and_goes_on_later(
    server, tmp_path, times, tally
):
    rng = random.Random(5)
    scripts = [[fault] for fault in FAULTS] + [
        rng.choices(list(FAULTS), k=3) for _ in range(25 * (times - 1))
    ]
    failed = []
    for number, script in enumerate(scripts):
        root = tmp_path / str(number)
        root.mkdir()
        if number % 2:  # half of the downloads go on
            (root / f"{CIFAR100.filename}.part").write_bytes(GOOD[: rng.randrange(len(GOOD))])
        server.script, server.rng = list(script), random.Random(number)
        good = survived(root)
        server.script = []
        fetch.fetch("cifar100", root, progress=False)
        if not good or any(check.state != "ok" for check in fetch.verify("cifar100", root)):
            failed.append(script)
    print(*failed, sep="\n")
    tally("downloads from a hostile server", len(scripts), len(scripts) - len(failed))
