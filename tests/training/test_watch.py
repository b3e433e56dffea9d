"""What is read off a model is what its attention computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rollpe.encodings import grid_positions
from rollpe.encodings.roll import twin_state_dict
from rollpe.topography import (
    attention_by_offset,
    near_and_any,
    smoothness_ratio,
    topography_loss,
    unpack_correlations,
)
from rollpe.vit import create_vit
from rollpe_lab.evidence import inside, words
from rollpe_lab.training import load_recipe, train
from rollpe_lab.training.models import CompiledModels
from rollpe_lab.training.run import train_epoch
from rollpe_lab.training.watch import (
    channel_frame,
    disorder,
    fewer_waves,
    gradients,
    observe,
    queries_and_keys,
    token_rms,
)

LABELS = torch.tensor([0, 1, 4])


def model(encoding: str, **settings):
    torch.manual_seed(3)
    shape = {"image_size": (8, 12), "patch_size": 4, "classes": 5, "size": "nano", "depth": 2, "channels": 1}
    return create_vit(encoding, **shape | settings)


def twins():
    """A roll and its twin with the same weights."""
    roll, twin = model("roll"), model("roll-twin")
    twin.load_state_dict(twin_state_dict(roll.state_dict(), twin.attentions[0].encoding))
    return roll, twin


def seen(vit):
    """Queries and keys of every layer, for five images."""
    with queries_and_keys(vit) as pairs, torch.no_grad():
        vit.eval()(images(5))
    return pairs


def images(count: int = 3):
    return torch.randn(count, 1, 8, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("encoding", ["none", "roll", "multiplexed-roll", "learned+axial-rope"])
def test_queries_and_keys_are_those_of_the_projection(encoding):
    vit = model(encoding).eval()
    with queries_and_keys(vit) as pairs, torch.no_grad():
        vit(images())
        vit(images())
        assert len(pairs) == 2
        tokens, _ = vit.embed(images())
        block = vit.blocks[0]
        wide = block.attn.encoding.waves_in * 96
        q = block.attn.qkv(block.norm1(tokens))[..., :wide].unflatten(-1, (3, -1)).transpose(1, 2)
        torch.testing.assert_close(pairs[0][0], q)
    vit(images())
    assert len(pairs) == 2, "nothing is collected any more"


def test_the_regularizer_reaches_every_projection_and_can_be_lowered():
    vit = model("roll")
    optimizer = torch.optim.SGD(vit.parameters(), lr=0.5)
    losses = []
    with queries_and_keys(vit) as pairs:
        for _ in range(8):
            vit(images())
            loss = disorder(pairs, 32)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    for block in vit.blocks:
        assert block.attn.qkv.weight.grad[:192].abs().sum() > 0


def test_the_waves_of_one_layer_count_alike():
    q, k = torch.randn(2, 1, 3, 5, 64)
    halves = [topography_loss(q[..., s], k[..., s], "ring") for s in (slice(0, 32), slice(32, 64))]
    torch.testing.assert_close(disorder([(q, k)], 32), sum(halves) / 2)


@pytest.mark.parametrize("encoding", ["roll", "multiplexed-roll", "shaw"])
def test_attention_by_offset_is_that_of_the_weights_of_all_images(encoding):
    vit = model(encoding)
    found = observe(vit, images(5), batch=2)
    q, k = seen(vit)[1]
    positions = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))
    weights = vit.blocks[1].attn.encoding.scores(q, k, positions).softmax(-1).detach()
    offsets, means = attention_by_offset(weights, positions)
    assert np.array_equal(found["offsets"], offsets)
    np.testing.assert_allclose(found["attention"][1], means.mean(0), rtol=1e-4)


def test_correlations_are_those_of_channels_over_images_and_patches_and_a_frame_holds_every_two():
    vit = model("roll")
    by_distance = observe(vit, images(5), batch=2)["key_correlation"]
    matrices = unpack_correlations(channel_frame(vit, images(5), batch=2))
    assert by_distance.shape == (2, 3, 2, 9) and np.allclose(by_distance[..., 0], 1)
    assert matrices.shape == (2, 2, 3, 2, 16, 16)
    keys = seen(vit)[1][1][:, 2, 1:, 16:]  # second layer, third head, second axis
    r = np.corrcoef(keys.flatten(0, 1).numpy().T)
    expected = [np.mean([r[i, (i + d) % 16] for i in range(16)]) for d in range(9)]
    np.testing.assert_allclose(by_distance[1, 2, 1], expected, atol=1e-4)
    np.testing.assert_allclose(matrices[1, 1, 2, 1], r, atol=0.5 / 127 + 1e-4)

    found = observe(vit, images(5))
    for which, name in enumerate(("query", "key")):
        near, _ = near_and_any(matrices[which])
        np.testing.assert_allclose(found[f"{name}_correlation"][..., 1], near, atol=0.5 / 127 + 1e-4)


@pytest.mark.parametrize(
    ("recipe", "changes", "part"),
    [
        ("smoke", {}, "held_out"),
        ("smoke", {"held_out": 0}, "train"),
        ("text", {"train_images": 256, "depth": 1, "width": 32, "heads": 2, "context": 16}, "held_out"),
    ],
)
def test_the_test_part_is_not_looked_at_before_the_last_step(recipe, changes, part, monkeypatch):
    """Neither to try out the sizes nor for frames, which are of what is held out, or else trained on."""
    read = CompiledModels.data
    monkeypatch.setattr(CompiledModels, "data", lambda *given: replace(read(*given), test=None))

    def only_epoch(run, bar):
        train_epoch(run, bar)
        evaluate, model = run.compiled.evaluate, run.compiled.model
        first = evaluate.prepare(getattr(evaluate.data, part).images[:256])
        assert sorted(run.frames) == [0, 1, 2]
        assert torch.equal(run.frames[2]["frames"], channel_frame(model, first))
        raise KeyboardInterrupt

    monkeypatch.setattr("rollpe_lab.training.run.train_epoch", only_epoch)
    changes |= {"frames": 3, "epochs": 1, "max_steps": 2, "warmup_epochs": 0, "resolutions": [32]}
    with pytest.raises(KeyboardInterrupt):
        train(load_recipe(recipe, changes), "roll", device="cpu", checkpoints=None, progress=False)


@pytest.mark.parametrize(("name", "std"), [("none", 0.0), ("learned", 0.5)])
def test_sizes_of_tokens_and_of_their_code_are_those_that_enter_the_first_block(name, std):
    options = {"std": std} if std else {}
    vit = model(name, pool="avg", encoding_options=options).eval()
    patches, code = token_rms(vit, images())
    entered = vit.embed(images())[0]
    if std:
        entered = entered - vit.token_encoding.table
    assert code.item() == pytest.approx(std, rel=0.1)
    assert patches.item() == pytest.approx(entered.square().mean().sqrt().item(), rel=1e-5)


def test_order_of_trained_channels_is_summed_up_beside_chance(monkeypatch):
    vit = model("roll")
    found = observe(vit, images(5))
    rings = torch.stack([x[:, :, 1:].unflatten(-1, (2, 16)) for pair in seen(vit) for x in pair])
    shuffled = torch.stack([smoothness_ratio(rings[..., torch.randperm(16)]).mean() for _ in range(300)])
    monkeypatch.setattr(words, "arrays_of", lambda run: found)
    measured = inside.roughness(None) / smoothness_ratio(rings).mean().item()
    assert 1 / measured == pytest.approx(shuffled.mean().item(), abs=5 * shuffled.std().item() / 300**0.5)

    samples = rings.permute(0, 2, 4, 5, 1, 3).flatten(-2).flatten(0, 2)  # every ring by its samples
    r = np.stack([np.corrcoef(ring.numpy()) for ring in samples]).mean(0)
    neighbors, any_two = inside.correlation_of(found)
    assert neighbors == pytest.approx(np.mean([r[i, (i + 1) % 16] for i in range(16)]), abs=1e-4)
    assert any_two == pytest.approx(r[np.triu_indices(16, 1)].mean(), abs=1e-4)


def test_the_twin_of_a_roll_is_seen_on_the_same_ring():
    roll, twin = twins()
    found, same = observe(roll, images(4)), observe(twin, images(4))
    assert found["query_spectrum"].shape == (2, 3, 2, 9) and found["key_roughness"].shape == (2, 3, 2)
    np.testing.assert_allclose(found["query_spectrum"].sum(-1), 1, rtol=1e-5)
    for name in ("query_spectrum", "key_roughness", "query_correlation", "attention"):
        np.testing.assert_allclose(same[name], found[name], rtol=1e-3, atol=1e-5)


def test_twins_are_asked_for_the_same_and_adam_follows_channels_or_waves():
    """Equal gradients on the ring; signs are taken channel by channel there, and wave by wave by the twin."""
    roll, twin = twins()
    a, b = (gradients(vit, images(), LABELS, 0.1) for vit in (roll, twin))
    for which in ("query", "key"):
        assert a[f"{which}_gradient"].shape == (2, 3, 2, 9)
        np.testing.assert_allclose(a[f"{which}_gradient"], b[f"{which}_gradient"], atol=2e-4)
        level = np.full(9, 2 / 16)
        level[[0, -1]] = 1 / 16
        np.testing.assert_allclose(b[f"{which}_step"], np.broadcast_to(level, (2, 3, 2, 9)), atol=1e-6)
        assert abs(a[f"{which}_step"] - level).max() > 0.02
        np.testing.assert_allclose(a[f"{which}_step"].sum(-1), 1, rtol=1e-5)
    assert all(p.grad is None for p in roll.parameters())


@pytest.mark.filterwarnings("ignore:aliased offsets")
@pytest.mark.parametrize("encoding", ["roll", "roll-twin", "none"])
def test_a_channel_that_belongs_to_no_axis_is_on_no_ring(encoding):
    vit = model(encoding, width=21, heads=3)
    found = observe(vit, images(2)) | gradients(vit, images(2), torch.tensor([0, 1]))
    for name in ("query_spectrum", "key_gradient"):
        assert found[name].shape == (2, 3, 2, 3 // 2 + 1)
        np.testing.assert_allclose(found[name].sum(-1), 1, rtol=1e-5)


def test_of_a_multiplexed_roll_the_first_wave_of_every_head_is_seen():
    vit = model("multiplexed-roll")
    found = gradients(vit, images(), LABELS)
    torch.nn.functional.cross_entropy(vit.eval()(images()), LABELS).backward()
    rows = vit.attentions[1].qkv.weight.grad[3 * 64 :][64:96]  # keys, head 1 of 3, the first of two waves
    power = torch.fft.rfft(rows.T.unflatten(-1, (2, 16)), norm="ortho").abs().square()
    power[..., 1:-1] *= 2
    share = power.sum(0) / power.sum((0, 2))[:, None]
    np.testing.assert_allclose(found["key_gradient"][1, 1], share.numpy(), rtol=1e-4, atol=1e-6)


def test_coherence_is_how_alike_the_gradients_of_encoded_queries_are():
    vit = model("roll", depth=1, pool="avg")
    for parameter in vit.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    found = gradients(vit, images(), LABELS)
    assert found["query_coherence"].shape == (1, 3) and (found["query_coherence"] <= 1).all()
    # shifting all keys alike moves no score against another
    assert found["key_coherence"].max() < 1e-6

    # by hand: ∂L/∂(S^p q) from the scores
    attention = vit.attentions[0]
    x = vit.embed(images())[0]
    q, k, v = (
        y.unflatten(-1, (3, 32)).transpose(1, 2) for y in attention.qkv(vit.blocks[0].norm1(x)).chunk(3, -1)
    )
    positions = grid_positions(2, 3)
    encoded, keys = attention.encoding(q, k, positions)
    encoded = encoded.detach().requires_grad_()
    out = ((encoded @ keys.mT) / 32**0.5).softmax(-1) @ v
    x = x + attention.proj(out.transpose(1, 2).flatten(2))
    logits = vit.forward_head(x + vit.blocks[0].mlp(vit.blocks[0].norm2(x)))
    torch.nn.functional.cross_entropy(logits, LABELS).backward()
    u = encoded.grad  # [B, heads, 6, 32]
    share = u.sum(2).square().sum((0, 2)) / (6 * u.square().sum((0, 2, 3)))
    torch.testing.assert_close(found["query_coherence"][0], share, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:aliased offsets")
@pytest.mark.parametrize("encoding", ["roll", "roll-twin", "multiplexed-roll", "none"])
def test_with_all_waves_a_model_has_its_own_loss_and_with_one_it_sees_levels(encoding):
    vit = model(encoding)
    losses = fewer_waves(vit, images(), LABELS)
    own = torch.nn.functional.cross_entropy(vit(images()), LABELS)
    assert losses.shape == (9,)
    torch.testing.assert_close(losses[-1], own)
    if encoding != "roll":
        return
    for attention in vit.attentions:  # rings of equal channels have one wave, the slowest
        q, k, v = attention.qkv.weight.data.chunk(3)
        level = [rows.unflatten(0, (-1, 16)).mean(1, keepdim=True).expand(-1, 16, -1) for rows in (q, k)]
        attention.qkv.weight.data = torch.cat((*(x.flatten(0, 1) for x in level), v))
        attention.qkv.bias.data[: 2 * len(q)] = 0
    torch.testing.assert_close(losses[0], torch.nn.functional.cross_entropy(vit(images()), LABELS))


def test_twins_lose_the_same_with_the_same_waves_and_the_strongest_are_chosen_by_power():
    roll, twin = twins()
    slow = fewer_waves(roll, images(), LABELS)
    torch.testing.assert_close(fewer_waves(twin, images(), LABELS), slow, rtol=1e-4, atol=1e-5)
    rising = -torch.arange(9.0).expand(2, 3, 2, 9)
    assert torch.equal(fewer_waves(roll, images(), LABELS, rising), slow)
    assert not torch.allclose(fewer_waves(roll, images(), LABELS, -rising)[:-1], slow[:-1])


def test_patches_with_a_loss_each_are_scored_by_the_mean_of_their_logits():
    changes = {"epochs": 1, "max_steps": 2, "warmup_epochs": 0, "pool": "patches", "frames": 2}
    record = train(load_recipe("smoke", changes), "roll", device="cpu", checkpoints=None, progress=False)
    assert record.test.images == len(record.correct_bits())
    vit = model("roll", pool="patches")
    assert vit(images()).shape == (3, 6, 5)
    own = torch.nn.functional.cross_entropy(vit(images()).mean(1), LABELS)
    torch.testing.assert_close(fewer_waves(vit, images(), LABELS)[-1], own)
