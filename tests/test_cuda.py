"""What only a GPU can show: steps replayed as CUDA graphs, and a whole run of them, are the eager ones."""

from __future__ import annotations

import copy

import pytest
import torch

from rollpe import training
from rollpe.engine import EAGER, How, Step, create_optimizers
from rollpe.recipes import load_recipe
from rollpe.training import train
from rollpe.vit import create_vit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PLACE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GRAPHS = How(gradient="reduce-overhead", update=True)


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    yield
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("encoding", "optimizer"), [("roll", "adamw"), ("roll", "lamb"), ("shaw", "adamw"), ("lie", "adamw")]
)
def test_replayed_steps_are_the_eager_ones_on_batches_at_other_addresses(encoding, optimizer):
    """The first step compiles, the second records, and the others replay."""
    asked = load_recipe("smoke", {"optimizer": optimizer, "ema": 0.7, "gradient_clip": 0.5})
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(8, 16, 1, 8, 8, generator=generator).to(PLACE)
    labels = torch.randint(10, (8, 16), generator=generator).to(PLACE)
    torch.manual_seed(0)
    shape = {"image_size": 8, "channels": 1, "classes": 10, "size": "nano", "patch_size": 2, "depth": 2}
    model = create_vit(encoding, **shape).to(PLACE).train()
    seen = []
    for way in (EAGER, GRAPHS):
        own, average = copy.deepcopy(model), copy.deepcopy(model)
        step = Step(own, asked, create_optimizers(own, asked, way), way, average=average)
        losses = [step(x, y, 1e-3).item() for x, y in zip(images, labels, strict=True)]
        seen.append((losses, own.head.weight.detach(), average.head.weight.detach()))
    (eager, *weights), (replayed, *others) = seen
    assert replayed == pytest.approx(eager, rel=2e-3)
    for ours, theirs in zip(others, weights, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3)  # eight steps of at most 1e-3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_compiled_run_learns_what_the_eager_one_does_and_goes_on_from_its_checkpoint(
    tmp_path, monkeypatch, precision
):
    monkeypatch.setitem(training.EVALUATION_BATCH, PLACE.type, 100)  # so that scoring is compiled, too
    settings = {"epochs": 3, "precision": precision, "ema": 0.5, "drop_path": 0.1, "pool": "avg"}
    eager, fast = (load_recipe("smoke", settings | {"compile": c, "name": "x"}) for c in (False, True))
    quiet = {"device": PLACE.type, "progress": False}
    one = train(eager, "roll", checkpoints=None, **quiet)

    save = training.Checkpoint.save

    def stop(self, run, finished=False):
        save(self, run, finished)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training.Checkpoint, "save", stop)
        train(fast, "roll", checkpoints=tmp_path, **quiet)
    two = train(fast, "roll", checkpoints=tmp_path, records=tmp_path / "records", resume=True, **quiet)
    assert [row.steps for row in two.history] == [row.steps for row in one.history]
    for a, b in zip(one.history, two.history, strict=True):
        assert b.train_loss == pytest.approx(a.train_loss, rel=0.1)
    assert two.test.loss == pytest.approx(one.test.loss, rel=0.2)
