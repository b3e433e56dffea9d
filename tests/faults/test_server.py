"""A server that lies, stalls and hangs up: a download is whole or refused in one line."""

from __future__ import annotations

import random
import socket
import struct
import time
from pathlib import Path

import pytest

from published import OK, body, pack, published
from rollpe.errors import InputError
from rollpe_lab.training import fetch

FILES = {name: random.Random(name).randbytes(3000) for name in ("train", "test", "meta")}
GOOD = pack(FILES)


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


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    monkeypatch.setattr(fetch, "RETRIES", 0)
    with published(FILES) as there:
        yield there


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
    scripts = [[fault] for fault in FAULTS]
    scripts += [rng.choices(list(FAULTS), k=3) for _ in range(25 * (times - 1))]
    failed = []
    for number, script in enumerate(scripts):
        root = tmp_path / str(number)
        root.mkdir()
        faults = random.Random(number)
        server.script = [FAULTS[fault](faults) for fault in script]
        good = survived(root)
        server.script = []
        if not good or any(c.state != "ok" for c in fetch.fetch("cifar100", root, progress=False)):
            failed.append(script)
    print(*failed, sep="\n")
    tally("downloads from a hostile server", len(scripts), len(scripts) - len(failed))
