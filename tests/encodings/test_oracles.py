"""Our encodings against the code of timm, Hugging Face transformers and SciPy; more is in test_peers.py.

Each test says which of their modules it is and how their channels or axes map onto ours. Rings with a
twist, which none of them has, are compared with loops over single channels.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from timm.layers.pos_embed_rel import RelPosBias
from timm.layers.pos_embed_sincos import RotaryEmbeddingDinoV3, apply_rot_embed_cat
from torch import Tensor

from rollpe.encodings import create_encoding, grid_positions
from rollpe.encodings.frequencies import (
    dynamic,
    geometric,
    llama3,
    longrope,
    longrope_temperature,
    proportional,
    yarn,
    yarn_temperature,
)
from rollpe.formulas import t5_bucket

transformers = pytest.importorskip("transformers")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")
phi3 = pytest.importorskip("transformers.models.phi3.modeling_phi3")
ROPE_INIT_FUNCTIONS = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
wav2vec2 = pytest.importorskip("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")


GRIDS = [(3, 5), (8, 8), (7, 4)]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# timm


@pytest.mark.parametrize("grid", GRIDS)
def test_axial_rope_on_centered_positions_is_timms_dinov3_rotary(grid: tuple[int, int]) -> None:
    """They measure positions as 2π·(2(p + ½)/G − 1) and pair channel i with i + d/2, rows first."""
    theirs = RotaryEmbeddingDinoV3(16, temperature=100.0, feat_shape=list(grid), rotate_half=True)
    ours = create_encoding("axial-rope", head_dim=16, heads=2, base=100.0)
    positions = 2 * math.pi * (2 * (grid_positions(*grid) + 0.5) / torch.tensor(grid) - 1)
    order = [channel for pair in range(8) for channel in (pair, pair + 8)]
    q = noise(2, 2, math.prod(grid), 16).float()
    expected = apply_rot_embed_cat(q, theirs.get_embed(), half=True)
    torch.testing.assert_close(
        ours.encode(q[..., order], positions), expected[..., order], atol=2e-5, rtol=1e-5
    )


def exact_t5(grid: tuple[int, int], heads: int):  # type: ignore[no-untyped-def]
    """A t5-bias in which every signed offset of the grid has a bucket of its own, and its values.

    Returns the encoding and, for each axis, its bias by offset -(G-1) … G-1, [2G - 1, heads].
    """
    buckets = 4 * max(grid)
    encoding = create_encoding(
        "t5-bias", head_dim=4, heads=heads, buckets=buckets, max_distance=2 * max(grid)
    ).double()
    by_offset = []
    for axis, size in enumerate(grid):
        bucket = t5_bucket(torch.arange(1 - size, size), buckets, 2 * max(grid))
        assert len(bucket.unique()) == 2 * size - 1
        by_offset.append(encoding.table[axis, :, bucket].detach().T)
    return encoding, by_offset


@pytest.mark.parametrize("grid", GRIDS)
def test_a_bias_summed_over_axes_is_timms_window_bias_with_a_separable_table(grid: tuple[int, int]) -> None:
    """RelPosBias (Swin): one entry for each pair of offsets, query − key, rows times columns."""
    ours, (rows, columns) = exact_t5(grid, heads=3)
    theirs = RelPosBias(grid, num_heads=3).double()
    table = rows.flip(0)[:, None] + columns.flip(0)[None, :]  # key − query to query − key
    with torch.no_grad():
        theirs.relative_position_bias_table.copy_(table.flatten(0, 1))
    q = noise(1, 3, math.prod(grid), 4)
    torch.testing.assert_close(ours.mask(q, q, grid_positions(*grid)), theirs.get_bias())


# Hugging Face transformers


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 40), (32, 1000)])
def test_distance_buckets_are_t5s(bidirectional: bool, buckets: int, max_distance: int) -> None:
    delta = torch.arange(-1200, 1201)
    expected = t5.T5Attention._relative_position_bucket(delta, bidirectional, buckets, max_distance)
    assert torch.equal(t5_bucket(delta, buckets, max_distance, bidirectional), expected)


ORIGINAL = {"original_max_position_embeddings": 16}
STRETCHES = {"short_factor": [1 + i / 10 for i in range(24)], "long_factor": [2.0 + i for i in range(24)]}
theta = geometric(24, 500.0)  # of 48 channels
SCALED = [  # options of theirs; options of ours
    ({"rope_type": "default", "partial_rotary_factor": 1.0}, {"frequencies": geometric(32, 500.0)}),
    ({"rope_type": "linear", "factor": 4.0}, {"frequencies": theta / 4}),
    ({"rope_type": "dynamic", "factor": 3.0}, {"frequencies": dynamic(theta, 3.0, 64)}),
    (
        {"rope_type": "yarn", "factor": 4.0, **ORIGINAL},
        {"frequencies": yarn(theta, 4.0, 16), "temperature": yarn_temperature(4.0)},
    ),
    (
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 0.5, **ORIGINAL},
        {"frequencies": yarn(theta, 4.0, 16, 8.0, 0.5), "temperature": yarn_temperature(4.0)},
    ),
    (
        {"rope_type": "yarn", "factor": 4.0, "truncate": False, **ORIGINAL},
        {"frequencies": yarn(theta, 4.0, 16, truncate=False), "temperature": yarn_temperature(4.0)},
    ),
    (
        {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.7, **ORIGINAL},
        {"frequencies": yarn(theta, 4.0, 16), "temperature": 0.7},
    ),
    (
        {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.2, **ORIGINAL},
        {"frequencies": yarn(theta, 4.0, 16), "temperature": yarn_temperature(4.0, 0.7, 1.2)},
    ),
    (
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL},
        {"frequencies": llama3(theta, 4.0, 16)},
    ),
    (
        {"rope_type": "longrope", "factor": 4.0, **STRETCHES, **ORIGINAL},
        {
            "frequencies": longrope(theta, 16, *STRETCHES.values()),
            "temperature": longrope_temperature(4.0, 16),
        },
    ),
    (
        {"rope_type": "longrope", "factor": 4.0, "attention_factor": 1.5, **STRETCHES, **ORIGINAL},
        {"frequencies": longrope(theta, 16, *STRETCHES.values()), "temperature": 1.5},
    ),
]


@pytest.mark.parametrize("tokens", [16, 17, 64, 65, 100])
@pytest.mark.parametrize(("theirs", "ours"), SCALED)
def test_scaled_and_partial_rope_is_that_of_transformers(theirs: dict, ours: dict, tokens: int) -> None:
    """LlamaRotaryEmbedding on 48 of 64 channels, in texts of the trained length and beyond."""
    config = transformers.LlamaConfig(
        hidden_size=192,
        num_attention_heads=3,
        max_position_embeddings=64,
        rope_parameters={"rope_theta": 500.0, "partial_rotary_factor": 0.75} | theirs,
    )
    encoding = create_encoding("rope", head_dim=64, heads=3, layout="half", **ours)
    positions, (q, k) = torch.arange(tokens), noise(2, 2, 3, tokens, 64).float()
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, positions[None])
    expected = phi3.apply_rotary_pos_emb(q, k, cos, sin)
    for out, wanted in zip(encoding(q, k, positions[:, None]), expected, strict=True):
        torch.testing.assert_close(out, wanted, atol=1e-4, rtol=1e-5)  # angles in float32


@pytest.mark.parametrize("length", [1, 2048, 2049, 16384])
@pytest.mark.parametrize("kind", ["dynamic", "yarn", "llama3", "longrope", "proportional"])
def test_scaled_frequencies_are_those_of_transformers(kind: str, length: int) -> None:
    """To 1e-6, with the sizes of Llama 2 and in the precision of a pass; a text has a length."""
    numbers = {"short_factor": [2.0] * 64, "long_factor": [float(i) for i in range(1, 65)]}
    own = {
        "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "longrope": numbers,
        "proportional": {"partial_rotary_factor": 0.3},
    }.get(kind, {})
    theirs = {"rope_type": kind, "rope_theta": 10000.0, "factor": 10.0, **own}
    if kind not in ("dynamic", "proportional"):
        theirs["original_max_position_embeddings"] = 2048
    frequencies, temperature = ROPE_INIT_FUNCTIONS[kind](
        transformers.LlamaConfig(max_position_embeddings=2048, rope_parameters=theirs), seq_len=length
    )
    ours, factor = {
        "dynamic": (dynamic(geometric(64), 10.0, 2048), 1),
        "yarn": (yarn(geometric(64), 10.0, 2048), yarn_temperature(10.0)),
        "llama3": (llama3(geometric(64), 10.0, 2048), 1),
        "longrope": (longrope(geometric(64), 2048, *numbers.values()), longrope_temperature(10.0, 2048)),
        "proportional": (proportional(geometric(64), 0.3) / 10, 1),
    }[kind]
    encoding = create_encoding("rope", head_dim=128, heads=1, frequencies=ours)
    last = torch.tensor([[length - 1.0]], dtype=torch.float64)
    for found in (encoding.omega(last), encoding.omega(last.float())):
        torch.testing.assert_close(found.double().flatten(), frequencies.double(), rtol=1e-6, atol=0)
    assert factor == pytest.approx(temperature, rel=1e-12)


def test_shaw_is_the_relative_key_attention_of_wav2vec2_bert() -> None:
    """Their table is shared by all heads and may be clipped differently to the left and right."""
    config = transformers.Wav2Vec2BertConfig(
        hidden_size=12,
        num_attention_heads=3,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=4,
        right_max_position_embeddings=4,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs = wav2vec2.Wav2Vec2BertSelfAttention(config).double().eval()
    ours = create_encoding("shaw", head_dim=4, heads=3, axes=1, clip=4).double()
    with torch.no_grad():
        ours.keys.copy_(theirs.distance_embedding.weight.expand(1, 3, 9, 4))
    x = noise(2, 15, 12)
    q, k, v = (
        linear(x).unflatten(-1, (3, 4)).transpose(1, 2)
        for linear in (theirs.linear_q, theirs.linear_k, theirs.linear_v)
    )
    out = theirs.linear_out(ours.attend(q, k, v, grid_positions(15)).transpose(1, 2).flatten(2))
    torch.testing.assert_close(out, theirs(x)[0])


# SciPy


@pytest.mark.parametrize("grid", [(3, 5), (2, 2, 3)])
@pytest.mark.parametrize("block", [8, 4])
def test_lie_turns_queries_by_scipys_matrix_exponential(grid: tuple[int, ...], block: int) -> None:
    """R(p) = expm(Σ_a p_a/G_a A_a), with A_a filled entry by entry from the parameters."""
    torch.manual_seed(0)
    ours = create_encoding("lie", head_dim=8, heads=2, axes=len(grid), grid=grid, block=block).double()
    q = noise(1, 2, math.prod(grid), 8)
    turned = ours.encode(q, grid_positions(*grid)).detach().numpy()
    for head in range(2):
        generators = np.zeros((len(grid), 8, 8))
        for axis in range(len(grid)):
            for part in range(8 // block):
                entries = iter(ours.generators[head, axis, part].tolist())
                for i in range(part * block, (part + 1) * block):
                    for j in range(i + 1, (part + 1) * block):
                        generators[axis, i, j] = next(entries)
                        generators[axis, j, i] = -generators[axis, i, j]
        for token, position in enumerate(grid_positions(*grid).tolist()):
            power = sum(p / size * a for p, size, a in zip(position, grid, generators, strict=True))
            expected = scipy.linalg.expm(power) @ q[0, head, token].numpy()
            np.testing.assert_allclose(turned[0, head, token], expected, atol=1e-12)


# Loops over single channels


def one_step(share: np.ndarray, rings: tuple[int, ...], twist: float) -> np.ndarray:
    """A share of channels after one step: each takes its neighbor's number, one of a ring is twisted."""
    moved, start = share.copy(), 0
    for n in rings:
        for i in range(n):
            moved[start + i] = share[start + (i + 1) % n]
        if twist == 0.5 and n % 2 == 0:
            moved[start + n - 1] *= -1
        start += n
    if twist != 0.5:
        n, turn = rings[0], 2 * math.pi * twist
        moved[n - 1] = math.cos(turn) * share[0] - math.sin(turn) * share[n]
        moved[2 * n - 1] = math.sin(turn) * share[0] + math.cos(turn) * share[n]
    return moved


@pytest.mark.filterwarnings("ignore:aliased offsets")
@pytest.mark.parametrize("grid", [(3, 7), (1, 19), (9,), (2, 2, 3)])
@pytest.mark.parametrize(
    ("rings", "options"),
    [
        ((4,), {"width": 4}),
        ((5,), {"width": 5}),
        ((2, 3, 1), {"width": (2, 3, 1)}),
        ((3, 3), {"twist": 1 / 7}),
        ((2, 2), {"twist": -0.3, "width": 2}),
    ],
)
def test_a_twisted_roll_is_as_many_single_steps_as_the_position_says(
    rings: tuple[int, ...], options: dict, grid: tuple[int, ...]
) -> None:
    """With a channel left over on each axis, and one after the last; direction=-1 undoes the steps."""
    axes, tokens = len(grid), math.prod(grid)
    forward, backward = (
        create_encoding(
            "twisted-roll", head_dim=7 * axes + axes - 1, heads=2, axes=axes, direction=d, **options
        )
        for d in (1, -1)
    )
    q = noise(1, 2, tokens, forward.head_dim, seed=tokens)
    part, expected = forward.head_dim // axes, q.numpy().copy()
    for head in range(2):
        for token, place in enumerate(grid_positions(*grid).int().tolist()):
            for axis, steps in enumerate(place):
                share = expected[0, head, token, axis * part : (axis + 1) * part]
                for _ in range(steps):
                    share[:] = one_step(share, rings, options.get("twist", 0.5))
    stepped = torch.from_numpy(expected)
    torch.testing.assert_close(forward.encode(q, grid_positions(*grid)), stepped, atol=1e-13, rtol=0)
    torch.testing.assert_close(backward.encode(stepped, grid_positions(*grid)), q, atol=1e-13, rtol=0)
