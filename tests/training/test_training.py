"""What training promises: the same seed gives the same record, also after a kill; every encoding
gets the same data; nothing unusable is accepted, nothing broken is recorded."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from refusals import interrupted, raising, refused
from rollpe.encodings import encoding_options, grid_positions
from rollpe.errors import InputError
from rollpe.topography import near_and_any, unpack_correlations
from rollpe.vit import create_vit
from rollpe_lab import hashes
from rollpe_lab.evidence.inside import correlation_of
from rollpe_lab.hashes import loaded_hash, module_files, source_hash, training_hash
from rollpe_lab.records import (
    RunId,
    claim,
    read_arrays,
    read_record,
    record_path,
)
from rollpe_lab.training import (
    Recipe,
    TrainingError,
    checkpoint,
    create_model,
    create_optimizers,
    evaluate,
    learning_rate,
    load_dataset,
    load_model,
    load_recipe,
    train,
)
from rollpe_lab.training.checkpoint import checkpoint_path
from rollpe_lab.training.compiling import EAGER
from rollpe_lab.training.data import Split
from rollpe_lab.training.evaluate import Evaluator, ScaledPositions
from rollpe_lab.training.models import CompiledModels, shape_of
from rollpe_lab.training.run import moved
from rollpe_lab.training.step import Step
from shared import timeless

TABLE_1 = ["none", "learned", "axial-rope", "roll", "multiplexed-roll"]


def tiny(**changes) -> Recipe:
    """Four steps of 64 digits to an epoch, everything random switched on."""
    values = {
        "epochs": 2,
        "batch_size": 64,
        "train_images": 256,
        "width": 48,
        "dropout": 0.1,
        "drop_path": 0.1,
        "augmentation.crop": "pad",
        "augmentation.crop_padding": 1,
        "augmentation.mixup": 0.4,
        "resolutions": [12],
        "name": "tiny",
    }
    return load_recipe("smoke", values | changes)


def run(recipe=None, encoding="roll", **settings):
    settings = {"checkpoints": None, "device": "cpu", "progress": False} | settings
    return train(recipe or tiny(), encoding, **settings)


@pytest.fixture(scope="module")
def undisturbed():
    """The record of one run of three epochs, made in one go."""
    return run(tiny(epochs=3))


# The same and not the same


def test_the_same_seed_gives_the_same_record_and_leaves_nothing_else(undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert timeless(run(tiny(epochs=3))) == timeless(undisturbed)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled() and list(tmp_path.iterdir()) == []


def test_another_seed_gives_another_record():
    one, other = (run(tiny(max_steps=2), seed=seed) for seed in (0, 1))
    assert one.history[0].train_loss != other.history[0].train_loss
    assert one.test.loss != other.test.loss


def test_every_encoding_gets_the_same_images_order_and_dropout(monkeypatch):
    seen: dict[str, list] = {}

    class Watched(Step):
        def __call__(self, inputs, targets, rate):
            noise = hash(torch.get_rng_state().numpy().tobytes())  # what dropout will draw
            seen[encoding].append((inputs.sum().item(), targets.sum(0).tolist(), noise))
            return super().__call__(inputs, targets, rate)

    monkeypatch.setattr("rollpe_lab.training.models.Step", Watched)
    for encoding in ("none", "learned", "roll"):
        seen[encoding] = []
        run(encoding=encoding)
    assert len(seen["roll"]) == 8 and len({image for image, _, _ in seen["roll"]}) == 8
    assert seen["none"] == seen["learned"] == seen["roll"]


@pytest.mark.parametrize(
    ("encoding", "optimizer"),
    [("none", "lamb"), ("multiplexed-roll", "adamw"), ("lie", "sgd"), ("learned+mixed-rope", "muon")],
)
def test_a_seed_trained_after_another_leaves_the_record_it_leaves_alone(encoding, optimizer, monkeypatch):
    monkeypatch.setattr(CompiledModels, "KEPT", 1)
    recipe, models = tiny(max_steps=3, epochs=1, optimizer=optimizer), CompiledModels()
    run(recipe, encoding, seed=4, models=models)
    later = run(recipe, encoding, seed=0, models=models)
    assert timeless(later) == timeless(run(recipe, encoding, seed=0))
    (step,) = (weakref.ref(model.step) for model in models._models.values())
    gc.disable()
    try:
        run(tiny(max_steps=1), "roll", models=models)
    finally:
        gc.enable()
    assert len(models) == 1, "no more are kept than memory is meant for"
    assert step() is None, "its memory is free at once"


def test_held_out_images_are_scored_every_few_epochs_and_after_the_last():
    often, seldom = (run(tiny(epochs=5, score_every=every)) for every in (1, 3))
    assert [row.held_out_accuracy is None for row in seldom.history] == [True, True, False, True, False]
    assert all(row.held_out_accuracy is not None for row in often.history)
    assert seldom.test == often.test and seldom.recipe == often.recipe


# Frames


def test_frames_are_kept_at_even_moments_and_disturb_nothing(tmp_path, monkeypatch):
    """Here of the test images, as the correlations that they are compared with."""

    original = Evaluator.frame

    def frame(evaluate, model):
        of_test = copy.copy(evaluate)
        of_test.data = replace(evaluate.data, held_out=evaluate.data.test)
        return original(of_test, model)

    monkeypatch.setattr(Evaluator, "frame", frame)
    plain = run(tiny(), records=tmp_path)
    seen = run(tiny(frames=4), records=tmp_path / "seen")
    left, right = timeless(plain), timeless(seen)
    assert left.pop("config") | {"frames": 4} == right.pop("config")
    assert left.pop("arrays_sha256") != right.pop("arrays_sha256")
    assert left == right
    before, after = (
        read_arrays(record_path(f, r)) for f, r in ((tmp_path, plain), (tmp_path / "seen", seen))
    )
    assert after.pop("frame_steps").tolist() == [0, 3, 5, 8]
    near, any_two = near_and_any(unpack_correlations(torch.from_numpy(after.pop("frames"))[-1]))
    kept = {key: after.pop(key) for key in list(after) if key.startswith("frame_")}
    assert {f"frame_{which}_{what}" for which in ("query", "key") for what in ("gradient", "coherence")} < {
        *kept
    }
    assert all(len(found) == 4 for found in kept.values())
    assert {len(after.pop(f"{which}_waves")) for which in ("slow", "strong")} == {5}
    assert before.keys() == after.keys() and all(np.array_equal(before[key], after[key]) for key in before)
    seen_last = near.mean().item(), any_two.mean().item()
    assert seen_last == pytest.approx(correlation_of(after), abs=0.5 / 127 + 1e-4)


def test_a_run_killed_in_the_middle_keeps_the_frames_from_before(tmp_path):
    recipe, places = tiny(frames=4), {"records": tmp_path / "r", "checkpoints": tmp_path / "c"}
    with interrupted(1):
        run(recipe, **places)
    resumed, whole = run(recipe, resume=True, **places), run(recipe, records=tmp_path / "whole")
    assert timeless(resumed) == timeless(whole), "the digest of the arrays, too"


# What a run does beside minimizing its loss


def test_asking_for_a_ring_makes_queries_smoother_around_it(tmp_path):
    """And asking with no weight changes nothing."""
    changes = {"max_steps": 12, "depth": 1, "resolutions": [], "topography": "ring"}
    weightless, asked = (
        run(load_recipe("smoke", changes | {"topography_weight": weight}), records=tmp_path)
        for weight in (0.0, 3.0)
    )
    plain = run(load_recipe("smoke", changes | {"topography": "none"}))
    assert plain.test == weightless.test
    paths = (record_path(tmp_path, record) for record in (weightless, asked))
    before, after = (read_arrays(path)["query_roughness"].mean() for path in paths)
    assert after < 0.9 * before


def test_moving_images_right_and_down_repeats_the_edge():
    image = torch.arange(6, dtype=torch.uint8).view(1, 1, 2, 3)
    there, back = (moved(Split(image, torch.zeros(1)), by).images[0, 0].tolist() for by in (1, -1))
    assert there == [[0, 0, 1], [0, 0, 1]] and back == [[4, 5, 5], [4, 5, 5]]


def test_an_encoding_of_real_positions_is_also_measured_with_positions_scaled_into_the_trained_grid():
    def built(encoding):
        return create_vit(encoding, size="nano", image_size=8, patch_size=2, channels=1).eval()

    model, small, large = built("axial-rope"), torch.rand(1, 1, 8, 8), torch.rand(1, 1, 12, 12)
    scaled, middles = ScaledPositions.of(model), grid_positions(6, 6) * (4 / 6) - 1 / 6
    torch.testing.assert_close(scaled(small), model(small))
    torch.testing.assert_close(scaled(large), model(large, middles))
    assert not torch.allclose(scaled(large), model(large))
    assert ScaledPositions.of(built("roll")) is ScaledPositions.of(built("t5-bias")) is None
    assert run(tiny(max_steps=1)).scaled_resolutions == {}
    record = run(tiny(max_steps=1, resolutions=[8]), "axial-rope")
    assert record.scaled_resolutions == {"8": record.test.accuracy}


def test_a_record_holds_the_accuracy_of_moved_images_and_the_arrays_beside_it(tmp_path):
    record = run(tiny(max_steps=1, shifts=[0, 2]), "multiplexed-roll", records=tmp_path)
    assert record.shifts["0"] == record.test.accuracy
    assert 0 <= record.shifts["2"] <= 1
    arrays = read_arrays(record_path(tmp_path, record))
    assert arrays["attention"].shape[1:] == (3, len(arrays["offsets"]))
    assert np.isfinite(arrays["key_spectrum"]).all()


# Checkpoints; see also test_checkpoints.py


@pytest.mark.parametrize(("seconds", "files"), [(0.0, 4), (3600.0, 2)])
def test_a_checkpoint_is_written_first_and_last_and_in_between_now_and_then(
    tmp_path, monkeypatch, seconds, files
):
    """After each of three epochs and at the end, or after the first and at the end."""
    written = []
    save = checkpoint.Checkpoint.save
    monkeypatch.setattr("rollpe_lab.training.run.CHECKPOINT_SECONDS", seconds)
    monkeypatch.setattr(
        checkpoint.Checkpoint, "save", lambda self, *args, **to: (written.append(to), save(self, *args, **to))
    )
    run(tiny(epochs=3), checkpoints=tmp_path)
    assert len(written) == files and written[-1] == {"finished": True}


@pytest.fixture
def finished(tmp_path):
    """A finished run of one step: (record, path of its checkpoint, folder)."""
    record = run(tiny(max_steps=1), checkpoints=tmp_path)
    return record, checkpoint_path(tmp_path, record.run_id), tmp_path


def test_the_model_of_a_finished_run_scores_what_its_record_says_and_is_not_trained_again(
    finished, monkeypatch
):
    record, path, folder = finished
    monkeypatch.setattr("rollpe_lab.training.run.train_epoch", None)
    assert timeless(run(tiny(max_steps=1), checkpoints=folder, resume=True)) == timeless(record)
    model, data = load_model(path, device="cpu"), load_dataset("digits")
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (data.mean, data.std))
    with torch.no_grad():
        logits = model((data.test.images / 255 - mean) / std)
    assert not model.training
    assert np.array_equal((logits.argmax(1) == data.test.labels).numpy(), record.correct_bits())


def test_a_checkpoint_of_another_recipe_or_source_is_refused(finished, monkeypatch):
    _, path, folder = finished
    with refused(rf"{path}: .* \(its recipe differs\)"):
        run(tiny(max_steps=1, weight_decay=0.1), checkpoints=folder, resume=True)
    monkeypatch.setattr("rollpe_lab.training.checkpoint.training_hash", lambda *_: "another")
    with refused(rf"{path}: .* \(its source differs\)"):
        run(tiny(max_steps=1), checkpoints=folder, resume=True)


LOADED = """
import sys
from rollpe_lab.training import load_recipe, train

train(load_recipe("smoke", {"max_steps": 1}), "roll", device="cpu", progress=False)
print(*(m.__file__ for name, m in sys.modules.items() if name.startswith("rollpe")), sep="\\n")
"""


def test_a_checkpoint_depends_on_the_meaning_of_every_file_that_a_run_loads_and_of_no_page(
    tmp_path, monkeypatch
):
    environment = os.environ | {"PYTHONPATH": str(hashes.SRC)}
    answer = subprocess.run([sys.executable, "-c", LOADED], env=environment, capture_output=True, check=True)
    loaded = {Path(line).relative_to(hashes.SRC) for line in answer.stdout.decode().splitlines()}
    assert {Path("rollpe/formulas.py"), Path("rollpe_lab/training/canvas.py")} <= loaded
    src = shutil.copytree(hashes.SRC, tmp_path / "src")
    monkeypatch.setattr(hashes, "SRC", src)

    def changes(more, *files):
        for file in files:
            (src / file).write_text((src / file).read_text() + more)
        hashes._first_meaning.cache_clear()
        return training_hash() != whole

    hashes._first_meaning.cache_clear()
    whole = training_hash()
    read = {path.relative_to(src) for path in module_files("rollpe_lab.training.run", src=src)}
    assert loaded <= read
    assert not changes('\n"""Words."""  # more\n', *loaded)
    rooms = {path.parts[:2] for path in read}
    assert not rooms & {("rollpe_lab", "bench"), ("rollpe_lab", "evidence"), ("rollpe_lab", "statistics.py")}
    assert {package for package, *_ in rooms} == {"rollpe", "rollpe_lab"}
    assert not changes("\nplanted = 1\n", "rollpe_book/extension/page.py", "rollpe/cli.py")
    assert changes("\nplanted = 1\n", "rollpe/formulas.py")


def test_a_model_is_loaded_from_finished_runs_only(tmp_path):
    with refused("no checkpoint to read"):
        load_model(tmp_path / "nothing.pt")
    with interrupted(1):
        run(tiny(), checkpoints=tmp_path)
    (path,) = tmp_path.rglob("seed-*.pt")
    with refused("has not finished"):
        load_model(path)


def test_whoever_has_a_record_has_the_trained_model_too(tmp_path, monkeypatch):
    """Killed before the record is written, a run finds its last weights and writes the same record."""
    places = {"records": tmp_path / "records", "checkpoints": tmp_path / "checkpoints"}

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("rollpe_lab.training.run.write_record", raising(KeyboardInterrupt))
        run(tiny(max_steps=1), **places)
    cell = RunId(recipe=tiny(max_steps=1).name, encoding="roll", seed=0)
    load_model(checkpoint_path(places["checkpoints"], cell), device="cpu")
    resumed = run(tiny(max_steps=1), resume=True, **places)
    alone = run(tiny(max_steps=1), records=tmp_path / "alone")
    assert timeless(resumed) == timeless(alone)
    assert read_record(record_path(places["records"], cell)) == resumed


@pytest.mark.parametrize(("folder", "end"), [("records", "json"), ("records", "npz"), ("checkpoints", "pt")])
def test_half_written_files_are_swept_up_unless_another_process_trains_the_run(tmp_path, folder, end):
    half = tmp_path / f"tiny/roll/.seed-0.{end}.123.tmp"
    half.parent.mkdir(parents=True)
    half.touch()
    settings = {"recipe": tiny(max_steps=1), folder: tmp_path}
    with ThreadPoolExecutor() as other, claim(tmp_path, RunId(recipe="tiny", encoding="roll", seed=0)):
        with refused("another process trains this run"):
            other.submit(run, **settings).result()
    assert half.exists()
    run(**settings)
    assert not half.exists()


# Learning


CALM = {"dropout": 0.0, "drop_path": 0.0, "label_smoothing": 0.0, "pool": "avg"}


def losses_on_sixteen_images(recipe: Recipe, encoding: str, steps: int) -> list[float]:
    data = load_dataset("digits")
    images = (data.train.images[:16] / 255 - data.mean[0]) / data.std[0]
    torch.manual_seed(0)
    model = create_model(recipe, RunId(recipe="x", encoding=encoding, seed=0), shape_of(data))
    step = Step(model, recipe, create_optimizers(model, recipe), EAGER)
    return [step(images, data.train.labels[:16], recipe.learning_rate).item() for _ in range(steps)]


@pytest.mark.parametrize("encoding", TABLE_1)
def test_every_encoding_learns_sixteen_images_by_heart(encoding):
    losses = losses_on_sixteen_images(tiny(**CALM, learning_rate=0.005), encoding, steps=40)
    assert losses[0] == pytest.approx(math.log(10), abs=0.3)
    assert losses[-1] < 0.2


@pytest.mark.parametrize("optimizer, rate", [("adamw", 0.005), ("lamb", 0.02), ("sgd", 0.01), ("muon", 0.01)])
def test_every_optimizer_lowers_the_loss(optimizer, rate):
    if optimizer == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    recipe = tiny(**CALM, optimizer=optimizer, learning_rate=rate)
    losses = losses_on_sixteen_images(recipe, "learned", steps=25)
    assert losses[-1] < losses[0] - 0.2


@pytest.mark.parametrize(
    ("encoding", "changes"),
    [("roll", {"second_moment": "ring"})]
    + [(encoding, {"optimizer": optimizer}) for encoding in TABLE_1 for optimizer in ("adamw", "muon")],
)
def test_every_parameter_has_one_optimizer_and_only_weights_decay(encoding, changes):
    recipe = load_recipe("smoke", changes | {"layer_scale": 0.1})
    cell = RunId(recipe="x", encoding=encoding, seed=0)
    model = create_model(recipe, cell, shape_of(load_dataset("digits")))
    groups = [group for one in create_optimizers(model, recipe) for group in one.param_groups]
    decays = [(id(p), group["weight_decay"]) for group in groups for p in group["params"]]
    assert sorted(key for key, _ in decays) == sorted(id(p) for p in model.parameters())
    decay = dict(decays)
    for name, parameter in model.named_parameters():
        spared = name.endswith(("bias", "gamma")) or "norm" in name or name in model.no_weight_decay()
        assert decay[id(parameter)] == (0 if spared else recipe.weight_decay), name


@pytest.mark.parametrize("warmup, epochs, steps", [(0, 3, 7), (1, 3, 7), (2.5, 5, 4), (3, 3, 5)])
def test_the_learning_rate_rises_to_its_peak_and_falls_towards_zero(warmup, epochs, steps):
    recipe = tiny(epochs=epochs, warmup_epochs=warmup, learning_rate=0.5)
    total = epochs * steps
    rates = [learning_rate(recipe, step, total, steps) for step in range(total)]
    peak = max(0, round(warmup * steps) - 1)
    assert rates[peak] == pytest.approx(0.5)
    assert all(np.diff(rates[: peak + 1]) > 0) and all(np.diff(rates[peak:]) <= 0)
    assert np.diff(rates[: peak + 1]) == pytest.approx(0.5 / max(1, peak + 1))
    assert 0 < min(rates)

    if warmup == 0:
        assert learning_rate(recipe, 50, 100, steps) == pytest.approx(0.25), "half way down the cosine"


# Evaluation


def test_the_test_images_are_scored_once_at_the_end(monkeypatch):
    sizes = []
    call = evaluate.Evaluator.__call__

    def counted(self, model, split, size=None):
        sizes.append((len(split), size))
        return call(self, model, split, size)

    monkeypatch.setattr(evaluate.Evaluator, "__call__", counted)
    run(tiny(epochs=3))
    rehearsal = [(1, None), (1, 12)]
    plain = [(256, None)]  # training images without augmentation
    assert sizes == [*rehearsal, *[(180, None)] * 3, (360, None), (360, 12), *plain]


def test_a_record_holds_what_it_says(undisturbed, tmp_path):
    record = undisturbed
    assert [row.epoch for row in record.history] == [1, 2, 3]
    assert [row.steps for row in record.history] == [4, 8, 12]
    assert record.test.images == 360 and record.correct_bits().shape == (360,)
    assert set(record.resolutions) == {"12"}
    short = run(tiny(epochs=9, max_steps=6, held_out=0, resolutions=[8]))
    assert [(row.steps, row.held_out_accuracy) for row in short.history] == [(4, None), (6, None)]
    assert short.resolutions["8"] == short.test.accuracy and short.config["held_out"] == 0
    assert record.config == json.loads(Recipe.model_validate(record.config).model_dump_json())
    assert (record.config["held_out"], record.config["precision"]) == (180, "float32")
    assert record.throughput == pytest.approx(
        np.mean([row.images_per_second for row in record.history]), rel=0.9
    )
    model = create_model(tiny(), record.run_id, {"image_size": [8, 8], "channels": 1, "classes": 10})
    assert record.parameters == sum(p.numel() for p in model.parameters())


def test_an_option_at_its_default_leaves_no_trace_in_the_name(monkeypatch):
    default = encoding_options("roll")["direction"]
    record = run(tiny(max_steps=1), encoding_options={"direction": default})
    assert record.run_id.slug == "roll"
    record = run(tiny(max_steps=1), encoding_options={"direction": -default})
    assert record.run_id.slug == f"roll@direction={-default}"


# What goes wrong


@pytest.mark.parametrize("steps", [None, 1])
def test_a_loss_that_is_not_a_number_is_one_line_and_no_record(tmp_path, steps):
    """Also if the very last step broke the weights."""
    recipe = tiny(learning_rate=1e30, gradient_clip=None, max_steps=steps)
    says = "not finite" if steps else r"epoch 1, step \d+.*learning_rate"
    with refused(says, kind=TrainingError):
        run(recipe, records=tmp_path)
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"device": "abacus"}, r"device='abacus' .*Allowed: auto, cpu"),
        ({"device": "meta"}, "device='meta' is not available here"),
        ({"seed": -1}, "seed=-1: allowed"),
        ({"encoding": "rol"}, "rol"),
        ({"encoding_options": {"speed": 3}}, "speed"),
        ({"recipe": tiny(patch_size=3, resolutions=[])}, "patch_size=3"),
        ({"recipe": tiny(width=100)}, "width=100"),
        ({"recipe": tiny(held_out=10**6)}, "held_out=1000000"),
        ({"recipe": tiny(train_images=1258)}, "train_images=1258: .* has 1257"),
    ],
)
def test_bad_input_is_one_line(settings, says):
    with refused(says):
        run(**settings)


def test_a_record_names_the_source_that_ran_and_not_what_was_edited_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr("rollpe_lab.records.provenance._first_commit", lambda package: ("loaded", False))
    monkeypatch.setattr("rollpe_lab.records.provenance._commit", lambda package: ("edited", True))
    monkeypatch.setattr("rollpe_lab.hashes.source_digest", lambda *_: hashlib.sha256(b"edited"))
    record = run(tiny(max_steps=1), records=tmp_path)
    assert (record.provenance.commit, record.provenance.dirty) == ("loaded", False)
    assert record.provenance.source_hash == loaded_hash() != source_hash()


@pytest.mark.parametrize("folder", ["records", "checkpoints"])
def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path, monkeypatch, folder):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("rollpe_lab.training.run.train_epoch", None)
    with pytest.raises(InputError, match="cannot write there"):
        run(**{folder: tmp_path / "file" / "deeper"})
    with pytest.raises(InputError, match=r"File name too long.* --set name=mine"):
        run(tiny(name="n" * 300), **{folder: tmp_path})
    for suffix in {"records": (".json", ".npz"), "checkpoints": (".pt", ".previous.pt")}[folder]:
        file = tmp_path / f"tiny/roll/seed-0{suffix}"
        file.mkdir(parents=True)
        with pytest.raises(InputError, match=rf"seed-0{suffix}: a folder, a device or a pipe"):
            run(**{folder: tmp_path})
        file.rmdir()


def test_a_size_that_cannot_be_evaluated_is_found_before_training(monkeypatch):
    monkeypatch.setattr("rollpe_lab.training.run.train_epoch", None)
    monkeypatch.setattr(evaluate.Evaluator, "__call__", raising(InputError("this size")))
    with refused("this size"):
        run()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such switch")
def test_memory_that_a_step_frees_is_kept_for_the_next():
    code = """import resource, torch
from rollpe_lab.training.device import keep_freed_memory
keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for step in range(60):
    if step == 40:
        before = faults()
    torch.empty(2**24).fill_(1.0)  # 16,384 pages
print(faults() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(done.stdout) < 16_384, "the last twenty of sixty took new pages"
