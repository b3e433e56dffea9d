"""A small archive in CIFAR-100's format, published by a server on this machine."""

from __future__ import annotations

import hashlib
import io
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torchvision.datasets import CIFAR100


def body(content: bytes) -> bytes:
    """The answer with this content."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content


class Server(socketserver.TCPServer):
    """Answers with the bytes that are next in its script, and with the archive at its end."""

    def __init__(self, archive: bytes):
        super().__init__(("127.0.0.1", 0), Handler)
        self.archive, self.script, self.asked = archive, [], 0


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.server.asked += 1
        self.wfile.write(self.server.script.pop(0) if self.server.script else body(self.server.archive))


@contextmanager
def published(files: dict[str, bytes], more: dict[str, bytes]) -> Iterator[Server]:
    """A server of these files, whose digests are the known ones; the archive also has ``more``."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (files | more).items():
            info = tarfile.TarInfo(f"{CIFAR100.base_folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    archive = packed.getvalue()
    with pytest.MonkeyPatch.context() as patch, Server(archive) as there:
        address = f"http://127.0.0.1:{there.server_address[1]}/{CIFAR100.filename}"
        patch.setattr("rollpe_lab.training.fetch.URL", address)
        sums[CIFAR100.filename] = hashlib.sha256(archive).hexdigest()
        patch.setattr("rollpe_lab.training.fetch.SHA256", sums)
        md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
        patch.setattr(CIFAR100, "train_list", [["train", md5["train"]]])  # which torchvision itself reads
        patch.setattr(CIFAR100, "test_list", [["test", md5["test"]]])
        patch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": md5["meta"]})
        patch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=there.serve_forever, args=(0.01,))
        thread.start()
        yield there
        there.shutdown()
        thread.join()
