"""The text: its files, split, windows; a short training run of a language model and its record."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rollpe.errors import InputError
from rollpe_lab.records.store import read_arrays, record_path
from rollpe_lab.training import load_recipe, text, train
from rollpe_lab.training.checkpoint import load_model
from rollpe_lab.training.data import load_dataset
from rollpe_lab.training.datasets import DATASETS, TEXTS
from rollpe_lab.training.fetch import fetch, verify

SMALL = {"train_images": 256, "depth": 1, "width": 32, "heads": 2, "context": 16, "resolutions": [32, 64]}


@pytest.mark.parametrize("name", TEXTS)
def test_parts_have_their_sizes_and_share_few_lines_of_code(name):
    train_text, held_out, test = text.read_text(name)
    assert (len(test), len(held_out)) == (text.TEST + 1, text.HELD_OUT + 1) and len(train_text) > 10**6
    assert set(train_text + held_out + test) <= set(text.CHARACTERS)
    long = [{line for line in part.split("\n") if len(line) > 60} for part in (held_out, test)]
    rare = [part - set(train_text.split("\n")) for part in long]
    assert all(len(r) > 0.8 * len(part) for r, part in zip(rare, long, strict=True))


def test_encoding_is_inverted_and_windows_predict_the_next_character():
    sample = "".join(text.CHARACTERS)
    assert text.decode(text.encode(sample)) == sample
    windows, successors = text.windows("def f(x):\n    return x", 5)
    assert [text.decode(w) for w in windows] == ["def f", "(x):\n", "    r", "eturn"]
    assert [text.decode(s) for s in successors] == ["ef f(", "x):\n ", "   re", "turn "]


@pytest.mark.parametrize("name", TEXTS)
def test_a_changed_package_is_named_with_its_repair(monkeypatch, name):
    assert [check.state for check in verify(name)] == ["ok"] == [c.state for c in fetch(name)]
    changed = replace(DATASETS[name].package, sha256="0" * 64)
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], package=changed))
    text.read_text.cache_clear()
    with pytest.raises(InputError, match=f"pip install .*{changed.distribution}=={changed.version}"):
        load_dataset(name, context=8)
    with pytest.raises(InputError):
        fetch(name)
    (check,) = verify(name)
    assert check.state == "damaged" and check.repair == changed.repair


@pytest.mark.parametrize(
    "change",
    [
        {"context": None},
        {"patch_size": 4},
        {"shifts": [1]},
        {"augmentation.flip": 0.5},
        {"topography": "ring"},
        {"pool": "avg"},
        {"resolutions": [100]},
    ],
    ids=str,
)
def test_recipe_of_text_refuses_what_only_images_have(change):
    with pytest.raises(InputError):
        load_recipe("text", change)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("text")
    recipe = load_recipe("text", SMALL | {"name": "small"})
    record = train(recipe, "t5-bias", records=root / "r", checkpoints=root / "c", progress=False)
    arrays = read_arrays(record_path(root / "r", record))
    return record, arrays, root / "c" / record.run_id.path.with_suffix(".pt")


def test_record_has_bits_by_length_of_the_same_characters(run):
    record, arrays, _ = run
    assert list(record.bits) == ["16", "32", "64"] and list(record.resolutions) == ["32", "64"]
    assert record.bits["16"] == pytest.approx(record.test.loss / math.log(2))
    assert record.bits["64"] == pytest.approx(arrays["loss_by_position"].mean() / math.log(2), rel=1e-5)
    assert record.test.images == text.TEST
    assert record.bits["16"] < math.log2(len(text.CHARACTERS))  # better than guessing after eight steps
    assert arrays["loss_by_position"].shape == (64,)


def test_arrays_have_one_axis_and_nobody_attends_to_later_characters(run):
    _, arrays, _ = run
    assert arrays["offsets"][:, 0].tolist() == list(range(-15, 16))
    assert not arrays["attention"][..., 16:].any()
    by_query = sum(arrays["attention"][..., 15 - d] * (16 - d) for d in range(16)) / 16
    np.testing.assert_allclose(by_query, 1, rtol=1e-5)  # weights of a query add up to one
    assert arrays["query_correlation"].shape == (1, 2, 1, 9) and arrays["bias"].shape == (1, 2, 31)


def test_recorded_bias_is_the_trained_table(run):
    _, arrays, path = run
    encoding = load_model(path, "cpu").attentions[0].encoding
    expected = encoding.table[0][:, encoding.bucket(torch.arange(-15, 16))]
    np.testing.assert_allclose(arrays["bias"][0], expected.detach().numpy(), atol=1e-6)


def test_loaded_model_predicts_what_the_record_says(run):
    record, _, path = run
    model = load_model(path, "cpu")
    windows, successors = text.windows(text.read_text()[2], 16)
    with torch.no_grad():
        logits = model(windows.long())
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), successors.flatten()).item()
    assert loss == pytest.approx(record.test.loss, rel=1e-5)
