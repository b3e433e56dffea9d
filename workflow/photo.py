"""Make data/photo: a photograph on its grid of patches, and the first layers of models that look at it.

    .venv/bin/rollpe sweep plans/photo.yaml --records data/records --keep-weights
    .venv/bin/python workflow/photo.py

photo.jpg is the left part of a sample photograph of scikit-learn. models.npz has its pixels as the models see
them, and of every finished run of plans/photo.yaml what rollpe_book.figures.photo needs, in half precision.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor

from rollpe.vit import VisionTransformer
from rollpe_book.figures import photo
from rollpe_lab.records.store import read_record, record_path
from rollpe_lab.training.checkpoint import checkpoint_path, load_model
from rollpe_lab.training.data import ImageData, load_dataset
from rollpe_lab.training.plan import load_plan

ROOT = Path(__file__).resolve().parent.parent
SHOWN = 36
"""Pixels along a patch of the photograph that the page shows."""


def cut_photo() -> Image.Image:
    """The left part of the photograph, as high as it is."""
    whole = Image.fromarray(load_sample_image("china.jpg"))
    rows, columns = photo.SIDES
    left = whole.crop((0, 0, whole.height * columns // rows, whole.height))
    return left.resize((SHOWN * columns, SHOWN * rows), Image.Resampling.LANCZOS)


def as_seen(picture: Image.Image) -> Tensor:
    """The pixels of the models, means over 9×9 pixels: uint8 [48, 64, 3]."""
    return torch.from_numpy(np.array(picture.reduce(SHOWN // photo.PATCH)))


def first_layer(model: VisionTransformer, mean: Tensor, std: Tensor) -> photo.Model:
    """What makes queries and keys out of pixels in the first layer; mean, std float64 [3] normalize those."""
    attention, norm = model.attentions[0], model.blocks[0].norm1
    embed, bias = (p.detach().double() for p in (model.patch_embed.proj.weight, model.patch_embed.proj.bias))
    scale, offset = (x[:, None, None] for x in (1 / std, mean / std))
    rows = 2 * attention.num_heads * attention.encoding.waves_in * attention.head_dim
    weight, shift = (p.detach().double()[:rows] for p in (attention.qkv.weight, attention.qkv.bias))
    gain, level = (p.detach().double() for p in (norm.weight, norm.bias))
    by_head = (2, attention.num_heads, -1)
    made = {
        "embed": (embed * scale).flatten(1),
        "embed_bias": bias - (embed * offset).flatten(1).sum(1),
        "project": (weight * gain).unflatten(0, by_head).transpose(0, 1),
        "project_bias": (weight @ level + shift).unflatten(0, by_head).transpose(0, 1),
    }
    table = getattr(model.token_encoding, "table", None)
    return made if table is None else made | {"table": table.detach().double()}


def in_order(name: str, model: photo.Model, patches: Tensor) -> photo.Model:
    """The model in half precision, its heads in the order of the figure."""
    model = {part: x.half().double() for part, x in model.items()}
    order = photo.by_variation(name, model, patches)
    return {part: x[order] if part.startswith("project") else x for part, x in model.items()}


def main() -> None:
    folder = ROOT / "data/photo"
    folder.mkdir(exist_ok=True)
    picture = cut_photo()
    picture.save(folder / "photo.jpg", quality=85, optimize=True)
    pixels = as_seen(picture)
    arrays = {"pixels": pixels.numpy()}
    data = load_dataset("cifar100", ROOT / "data")
    assert isinstance(data, ImageData)
    mean, std = (torch.tensor(x, dtype=torch.float64) for x in (data.mean, data.std))
    for planned in load_plan(ROOT / "plans/photo.yaml"):
        cell, name = planned.run_id, planned.run_id.encoding
        record = record_path(ROOT / "data/records", cell)
        if not record.is_file():
            print(f"{name}: no record, left out")
            continue
        model = load_model(checkpoint_path(ROOT / "checkpoints", cell), "cpu")
        assert isinstance(model, VisionTransformer)
        made = in_order(name, first_layer(model, mean, std), photo.cut(pixels))
        arrays |= {f"{name}.{part}": x.half().numpy() for part, x in made.items()}
        print(f"{name}: accuracy {read_record(record).test.accuracy:.1%}")
    np.savez_compressed(folder / "models.npz", **arrays)


if __name__ == "__main__":
    main()
