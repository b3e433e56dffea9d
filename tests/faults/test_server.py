"""A server that lies, stalls and hangs up: a download is whole or refused in one line."""

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
from rollpe_lab.training import fetch

FILES = {name: random.Random(name).randbytes(3000) for name in ("train", "test", "meta")}


def archive() -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in FILES.items():
            info = tarfile.TarInfo(f"{CIFAR100.base_folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


GOOD = archive()
OK = b"HTTP/1.1 200 OK\r\n"


def body(content: bytes, length: object = None) -> bytes:
    told = len(content) if length is None else length
    return OK + f"Content-Length: {told}\r\n\r\n".encode() + content


def honest(rng: random.Random) -> bytes:
    return body(GOOD)


def flipped(rng: random.Random) -> bytes:
    place = rng.randrange(len(GOOD))
    return body(GOOD[:place] + bytes([GOOD[place] ^ 1 << rng.randrange(8)]) + GOOD[place + 1 :])


def redirect(place: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# Each answers one request: with bytes, or with pieces of them and what to do to the connection.
FAULTS = {
    "cut": lambda rng: honest(rng)[: rng.randrange(len(GOOD))],
    "cut without a length": lambda rng: OK + b"\r\n" + GOOD[: rng.randrange(len(GOOD))],
    "flipped bit": flipped,
    "length": lambda rng: body(
        GOOD, rng.choice([0, -1, "", "abc", 1.5, 10**30, len(GOOD) - 1, len(GOOD) + 1, "9" * 5000])
    ),
    "error": lambda rng: b"HTTP/1.1 %d No\r\n\r\n" % rng.choice([204, 304, 400, 403, 404, 500, 503]),
    "page": lambda rng: body(b"<html>Sign in to go on</html>"),
    "redirect": lambda rng: redirect(
        rng.choice(["/", "", "http://[", "http://127.0.0.1:1/", "file:///etc/passwd", "ftp://127.0.0.1:1/x"])
    ),
    "no chunks": lambda rng: OK + b"Transfer-Encoding: chunked\r\n\r\n" + rng.randbytes(100),
    "silence": lambda rng: (b"", lambda _: time.sleep(1)),
    "garbage": lambda rng: rng.randbytes(rng.randrange(200)),
    "headers": lambda rng: OK + b"X: y\r\n" * 200 + b"\r\n" + GOOD,
    "reset": lambda rng: (honest(rng)[: rng.randrange(len(GOOD))], reset),
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
        while self.rfile.readline().strip():
            pass
        answer = FAULTS[self.server.script.pop(0)] if self.server.script else honest
        try:
            pieces = answer(self.server.rng)
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
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    monkeypatch.setattr(fetch, "RETRIES", 0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as there:
        monkeypatch.setattr(CIFAR100, "url", f"http://127.0.0.1:{there.server_address[1]}/archive")
        thread = threading.Thread(target=there.serve_forever, args=(0.01,))
        thread.start()
        yield there
        there.shutdown()
        thread.join()


def survived(root: Path) -> bool:
    """Whether a fetch got everything, or said in one line why not and left nothing."""
    try:
        return all(check.state == "ok" for check in fetch.fetch("cifar100", root, progress=False))
    except InputError as error:
        return "\n" not in str(error) and not list(root.glob("[!.]*"))


def test_whatever_a_server_sends_a_download_is_whole_or_refused_and_the_next_one_works(
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
        server.script, server.rng = list(script), random.Random(number)
        good = survived(root)
        server.script = []
        if not good or any(c.state != "ok" for c in fetch.fetch("cifar100", root, progress=False)):
            failed.append(script)
    print(*failed, sep="\n")
    tally("downloads from a hostile server", len(scripts), len(scripts) - len(failed))
