"""What tests of several rooms share."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import timm
import torch

from rollpe.cli import cli
from rollpe_lab.records import Record, pack_bits
from rollpe_lab.training.data import Data, ImageData, Split, TextData
from rollpe_lab.training.datasets import DATASETS
from rollpe_lab.training.text import CHARACTERS

ROOT = Path(__file__).resolve().parents[1]

DISPLAYED = [  # page, TeX and label, in the order of the book
    (page.stem, tex.replace("\n# ", "\n").strip(), label)
    for page in sorted((ROOT / "notebooks").glob("*.py"))
    for tex, label in re.findall(r"(?ms)^# \$\$(\n.*?)^# \$\$ \((\S+)\)$", page.read_text(encoding="utf-8"))
]

IMAGES = 200


def commands(group: click.Command) -> dict[str, click.Command]:
    """The verbs of a group; none of a verb."""
    if not isinstance(group, click.Group):
        return {}
    context = click.Context(group)
    return {name: group.get_command(context, name) for name in group.list_commands(context)}


def leaves(group: click.Command = cli, prefix: tuple[str, ...] = ()):
    """Every verb that has none of its own: its words and its command."""
    for name, command in commands(group).items():
        path = (*prefix, name)
        yield from leaves(command, path) if commands(command) else [(path, command)]


def make_record(encoding="roll", right=150, seed=0, recipe="strong", options=None, images=IMAGES, **config):
    """A record with the first `right` of `images` test images correct."""
    bits = np.arange(images) < right
    return Record(
        schema_version=1,
        protocol=1,
        recipe=recipe,
        encoding=encoding,
        encoding_options=options or {},
        seed=seed,
        config={"name": recipe, "epochs": 3} | config,
        parameters=10,
        history=[],
        test={"loss": 1.0, "accuracy": right / images, "images": images, "correct": pack_bits(bits)},
        throughput=100.0,
        environment={
            "python": "3.12",
            "platform": "Linux",
            "torch": "2.11",
            "timm": "1.0",
            "numpy": "2.0",
            "device": "cpu",
            "device_name": "a processor",
            "driver": None,
            "threads": 1,
        },
        provenance={
            "commit": "unknown",
            "dirty": None,
            "source_hash": "",
            "command": "",
            "started": "2026-11-01T10:00:00+00:00",
            "finished": "2026-11-01T10:01:00+00:00",
            "wall_seconds": 1.0,
        },
    )


def stand_in(name: str, context: int | None = None) -> Data:
    """A data set of one black image or one window in the shape that the table of data sets names."""
    dataset = DATASETS[name]
    label = torch.zeros(1, dtype=torch.long)
    if dataset.package:
        one = Split(torch.zeros(1, context or 1, dtype=torch.uint8), label.expand(1, context or 1))
        return TextData(name, list(CHARACTERS), one, one, one, context or 1)
    one = Split(torch.zeros(1, *dataset.image_shape, dtype=torch.uint8), label)
    gray = (0.5,) * dataset.image_shape[0]
    return ImageData(name, [str(i) for i in range(dataset.classes)], one, one, one, gray, gray)


def workflow_script(name: str):
    """A script of the folder workflow, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"workflow/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timeless(record) -> dict:
    """All of a record that must not depend on when and how fast it was made."""
    content = record.model_dump(exclude={"throughput": True, "provenance": True})
    for row in content["history"]:
        del row["seconds"], row["images_per_second"]
    return content


class Outline(HTMLParser):
    """Tags in the order in which they come, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


def assert_alone(text: str) -> Outline:
    """What every page promises: language, title, one h1, headed tables, described pictures, no address."""
    outline = Outline(text)
    assert outline.tags[0] == ("html", {"lang": "en"})
    assert len(outline.all("title")) == len(outline.all("h1")) == 1
    assert all("scope" in cell or cell["class"].startswith("head") for cell in outline.all("th"))
    assert all(image["alt"] for image in outline.all("img"))
    boxes = [a for a in outline.all("div") if a.get("class") == "scroll"]
    assert len(boxes) == len(outline.all("table")) and all(a["tabindex"] == "0" for a in boxes)
    fetched = [
        a.get(key)
        for a in outline.all("img", "source", "script", "link")
        for key in ("src", "href", "srcset")
    ]
    assert all(address is None or address.startswith("data:") for address in fetched)
    assert "@import" not in text and "url(http" not in text
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels)), "a level of headings is skipped"
    return outline


def make_text_record(encoding, bits, longest, seed=0, options=None, recipe="text"):
    """A record of a language model with these bits per character at 64 and at 512 characters."""
    record = make_record(encoding, 500, seed, recipe, options, images=1000, data="sympy")
    return record.model_copy(update={"bits": {"512": longest, "64": bits}})


TINY = {"embed_dim": 48, "num_heads": 3, "depth": 2, "num_classes": 9}


def rotary_model(name: str, **settings) -> torch.nn.Module:
    """A small model of one of timm's families, with weights so large that positions decide the class."""
    torch.manual_seed(0)
    model = timm.create_model(name, **{**TINY, **settings}).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=2 / parameter.shape[-1] ** 0.5 if parameter.dim() == 2 else 1)
    return model
