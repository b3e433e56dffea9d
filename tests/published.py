"""A small archive in CIFAR-100's format, published by a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torchvision.datasets import CIFAR100

OK = b"HTTP/1.1 200 OK\r\n"


def pack(members: dict[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"{CIFAR100.base_folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def body(content: bytes, length: object = None) -> bytes:
    """The answer with this content, which is told to be so long."""
    told = len(content) if length is None else length
    return OK + f"Content-Length: {told}\r\n\r\n".encode() + content


class Server(socketserver.ThreadingTCPServer):
    """Answers with what is next in its script, and with the archive at its end.

    An answer is bytes, or pieces of them and what to do to the connection.
    """

    allow_reuse_address = daemon_threads = True
    block_on_close = False

    def __init__(self, archive: bytes):
        super().__init__(("127.0.0.1", 0), Handler)
        self.archive, self.script, self.asked = archive, [], 0


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.server.asked += 1
        answer = self.server.script.pop(0) if self.server.script else body(self.server.archive)
        try:
            for piece in [answer] if isinstance(answer, bytes) else answer:
                piece(self.connection) if callable(piece) else self.wfile.write(piece)
        except OSError:
            pass  # the other side has hung up


@contextmanager
def published(files: dict[str, bytes], more: dict[str, bytes] | None = None) -> Iterator[Server]:
    """A server of these files, which torchvision's constants describe; the archive also has ``more``."""
    sums = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    archive = pack(files | (more or {}))
    with pytest.MonkeyPatch.context() as patch, Server(archive) as there:
        address = f"http://127.0.0.1:{there.server_address[1]}/{CIFAR100.filename}"
        patch.setattr(CIFAR100, "url", address)
        patch.setattr(CIFAR100, "tgz_md5", hashlib.md5(archive).hexdigest())
        patch.setattr(CIFAR100, "train_list", [["train", sums["train"]]])
        patch.setattr(CIFAR100, "test_list", [["test", sums["test"]]])
        patch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": sums["meta"]})
        patch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=there.serve_forever, args=(0.01,))
        thread.start()
        yield there
        there.shutdown()
        thread.join()
