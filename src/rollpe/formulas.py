"""The textbook formulas that the paper builds on: attention and the codes and scores of position.

Shapes: q, k [..., N, d], v [..., N, m], tokens X [..., N, D]; positions are tensors [..., N] or numbers.
Row i of a score matrix belongs to the query, column j to the key, and Δ = j − i. Codes and frequencies
come in float64 on the CPU, kernels and permutation matrices in float64; everything else keeps the dtype of
its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rollpe.errors import InputError, check_choice
from rollpe.ring import rotate_pairs

LAYOUTS = ("interleaved", "half")


def _even(d: int) -> int:
    if d < 2 or d % 2:
        raise InputError(f"d={d} has no pairs: use an even number of channels, 2 or more.")
    return d


# Attention.


def softmax(scores: Tensor) -> Tensor:
    """e^{A_ij} / Σ_l e^{A_il}: each row of A [..., N, N] becomes weights that add up to one."""
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))  # the shift cancels; it avoids overflow
    return weights / weights.sum(dim=-1, keepdim=True)


def scores(q: Tensor, k: Tensor) -> Tensor:
    """QKᵀ/√d, [..., N, N]."""
    return q @ k.mT / math.sqrt(q.shape[-1])


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(QKᵀ/√d) V (paper Eq. 1), [..., N, m]."""
    return softmax(scores(q, k)) @ v


def self_attention(X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    """Attention of tokens among themselves: Q = XW_Q, K = XW_K, V = XW_V."""
    return attention(X @ W_Q, X @ W_K, X @ W_V)


# Codes of an absolute position.


def one_hot_code(positions: Tensor, length: int) -> Tensor:
    """1_p: a one at p, zeros elsewhere; float64 [..., length] for positions [...] from 0 to length − 1.

    Between two integer positions it goes over from one to the other, linearly.
    """
    distance = (positions.to(torch.float64)[..., None] - torch.arange(length)).abs()
    return (1 - distance).clamp(min=0)


def binary_code(positions: Tensor, bits: int) -> Tensor:
    """⌊p/2^i⌋ mod 2, lowest bit first; float64 [N, bits] for integer positions [N]."""
    return (positions[:, None] // 2 ** torch.arange(bits) % 2).to(torch.float64)


def sinusoids(positions: Tensor, frequencies: Tensor) -> Tensor:
    """PE_{p,2i} = sin(ω_i p), PE_{p,2i+1} = cos(ω_i p): [..., 2m] for positions [...], ω [m]."""
    angle = positions[..., None] * frequencies
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


def sinusoid_shift(delta: float, frequencies: Tensor) -> Tensor:
    """R(Δ) with PE(p+Δ) = R(Δ) PE(p), [2m, 2m]: blocks [[cos ωΔ, sin ωΔ], [−sin ωΔ, cos ωΔ]] for ω [m]."""
    return rotation_matrix(-delta * frequencies)


def similarity_kernel(delta: Tensor, frequencies: Tensor) -> Tensor:
    """(1/m) Σ_i cos(ω_i Δ) for m frequencies: 1 at Δ = 0. float64, as delta.

    ⟨PE(p), PE(q)⟩ / (d/2) at Δ = p − q, and under RoPE the score of a q with itself over ‖q‖², if all pairs
    of q are equally long.
    """
    return torch.cos(delta.to(torch.float64)[..., None] * frequencies).mean(dim=-1)


def four_terms(X: Tensor, code: Tensor, W_Q: Tensor, W_K: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What adding a code to the tokens does to the score ⟨W_Q(x_p + c_p), W_K(x_q + c_q)⟩.

    X, code [N, D]. Returns content·content, content·position, position·content, position·position, each
    [N, N]; their sum is the score (before 1/√d).
    """
    q, q_code, k, k_code = X @ W_Q, code @ W_Q, X @ W_K, code @ W_K
    return q @ k.mT, q @ k_code.mT, q_code @ k.mT, q_code @ k_code.mT


# Scores that see the offset.


def offsets(positions: Tensor) -> Tensor:
    """Δ_ij = p_j − p_i: [..., N, N] for positions [..., N]."""
    return positions[..., None, :] - positions[..., :, None]


def relative_lookup(table: Tensor, delta: Tensor) -> Tensor:
    """R_{clip(Δ, −K, K)} for a table of the offsets −K … K: [2K+1, …] becomes ``[*delta.shape, …]``."""
    K = len(table) // 2
    return table[delta.clamp(-K, K) + K]


def shaw_scores(q: Tensor, k: Tensor, R: Tensor) -> Tensor:
    """e_ij = (q_i·k_j + q_i·R_ij)/√d, [..., N, N], with a vector for each pair of tokens, R [..., N, N, d].

    Shaw et al. 2018 take it from the offset of the two, R_ij = R^K_{clip(j−i)} (`relative_lookup`).
    """
    return scores(q, k) + torch.einsum("...id,...ijd->...ij", q, R) / math.sqrt(q.shape[-1])


def shaw_attention(q: Tensor, k: Tensor, v: Tensor, R_K: Tensor, R_V: Tensor) -> Tensor:
    """y_i = Σ_j α_ij (v_j + R^V_ij) with α = softmax(e) of `shaw_scores`, [..., N, m]."""
    alpha = softmax(shaw_scores(q, k, R_K))
    return alpha @ v + torch.einsum("...ij,...ijm->...im", alpha, R_V)


def t5_bucket(
    delta: Tensor, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Tensor:
    """The bucket of an offset Δ = j − i: exact when near, logarithmic when far; int64, as delta.

    Keys to the right (Δ > 0) use the upper half of the buckets. In each half of h = buckets/2, distances
    below e = ⌊h/2⌋ have their own bucket, and e + ⌊(h−e) ln(|Δ|/e)/ln(max_distance/e)⌋, at most h−1, holds
    the rest. Distance 0 is not to the right: bucket h stays empty. Not bidirectional, h = buckets and keys to
    the right are at distance 0. Source: Raffel et al. 2020, encoder and decoder.
    """
    half = buckets // 2 if bidirectional else buckets
    exact = half // 2
    distance = delta.abs() if bidirectional else (-delta).clamp(min=0)
    ratio = torch.log2(distance.clamp(min=exact).to(torch.float64) / exact)
    far = (ratio * (half - exact) / math.log2(max_distance / exact)).long()  # 0 when near
    bucket = (distance.clamp(max=exact) + far).clamp(max=half - 1)
    return bucket + half * (delta > 0) if bidirectional else bucket


def t5_scores(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
    """e_ij = q_i·k_j/√d + b_ij, [..., N, N]; in T5 b_ij = b_{bucket(j−i)}, one learned number per bucket."""
    return scores(q, k) + bias


def alibi_slopes(heads: int) -> Tensor:
    """ALiBi's slopes m_h, [heads], float64: 2^(−8h/H), h = 1 … H, for H a power of two.

    Any other number of heads has the slopes of the next lower power P, followed by those of 2P heads with odd
    h, as many as are missing. Source: Press et al. 2022, section 3 and, for the second sentence, their code.
    """
    power = 2 ** int(math.log2(heads))
    h = torch.arange(1, power + 1, dtype=torch.float64)
    finer = 2.0 ** (-4 * (2 * h - 1) / power)
    return torch.cat((2.0 ** (-8 * h / power), finer[: heads - power]))


def alibi_scores(q: Tensor, k: Tensor, delta: Tensor, slopes: Tensor) -> Tensor:
    """e_ij = q_i·k_j/√d − m_h |Δ_ij|, [..., heads, N, N], for q and k [..., heads, N, d], Δ [..., N, N]."""
    return scores(q, k) - slopes[:, None, None] * delta.abs().unsqueeze(-3)


# Rotation.


def rotation_matrix(angles: Tensor) -> Tensor:
    """Block-diagonal [[cos φ_i, −sin φ_i], [sin φ_i, cos φ_i]], [2m, 2m] for angles [m]."""
    cos, sin = angles.cos(), angles.sin()
    return torch.block_diag(*torch.stack((cos, -sin, sin, cos), dim=1).view(-1, 2, 2))


def rope(x: Tensor, positions: Tensor, frequencies: Tensor, layout: str = "interleaved") -> Tensor:
    """Rotate pair i of the token at position p by p·θ_i: x [..., N, 2m], positions [..., N], frequencies [m].

    Pairs are (x_0, x_1), (x_2, x_3), … ("interleaved") or (x_0, x_m), (x_1, x_{m+1}), … ("half"). Frequencies
    [..., 1, m] differ by sequence.
    """
    check_choice("layout", layout, LAYOUTS)
    return rotate_pairs(x, positions.to(frequencies.dtype)[..., None] * frequencies, layout)


def rotation_angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """φ_i(p) = Σ_a ω_{ia} p_a: [..., N, m] for positions [..., N, axes] and frequencies [..., m, axes].

    Not a matrix product, which accelerators may round to 10 bits.
    """
    return (positions[..., None] * frequencies.mT[..., None, :, :]).sum(-2)


def rope_score(q: Tensor, k: Tensor, delta: float, frequencies: Tensor) -> Tensor:
    """(R_{p_q} q)·(R_{p_k} k) from Δ = p_k − p_q alone: Σ_i a_i cos(θ_iΔ) − b_i sin(θ_iΔ), [...].

    q, k [..., 2m] in interleaved pairs, a_i = q_{2i}k_{2i} + q_{2i+1}k_{2i+1} and
    b_i = q_{2i}k_{2i+1} − q_{2i+1}k_{2i}: the real part of Σ_i q̄_i k_i e^{iθ_iΔ} with both its terms.
    """
    q_even, q_odd, k_even, k_odd = q[..., 0::2], q[..., 1::2], k[..., 0::2], k[..., 1::2]
    a, b = q_even * k_even + q_odd * k_odd, q_even * k_odd - q_odd * k_even
    cos, sin = torch.cos(frequencies * delta).to(q.dtype), torch.sin(frequencies * delta).to(q.dtype)
    return (a * cos - b * sin).sum(dim=-1)


def xpos_scales(
    pairs: int,
    gamma: float = 0.4,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """ζ_i = (i/m + γ)/(1 + γ), i = 0 … m−1, [m] for m = ``pairs``: the fastest pair shrinks most."""
    return (torch.arange(pairs, device=device, dtype=dtype) / pairs + gamma) / (1 + gamma)


def xpos(
    x: Tensor, positions: Tensor, frequencies: Tensor, scales: Tensor, span: float, *, keys: bool = False
) -> Tensor:
    """`rope`, and pair i of a query multiplied by ζ_i^{p/s}, of a key by ζ_i^{−p/s}; s = span.

    Pair i of a score then has the factor ζ_i^{(p_q−p_k)/s}. Source: Sun et al. 2022, arXiv 2212.10554.
    """
    power = positions.to(scales.dtype)[..., None] / span
    factor = scales ** (-power if keys else power)
    return rope(x, positions, frequencies) * factor.repeat_interleave(2, dim=-1).to(x.dtype)


def decay_bound(delta: Tensor, frequencies: Tensor) -> Tensor:
    """RoFormer's bound on |Σ_i h_i e^{iθ_iΔ}| over max_i|h_{i+1} − h_i| (h_m = 0): Σ_j |Σ_{i≤j} e^{iθ_iΔ}|.

    float64, as delta. It is an upper bound from summation by parts, and it is not monotone.
    """
    phase = torch.exp(1j * (delta.to(torch.float64)[..., None] * frequencies))
    return phase.cumsum(dim=-1).abs().sum(dim=-1)


def lie_rotation(positions: Tensor, generators: Tensor) -> Tensor:
    """R(p) = exp(Σ_a p_a A_a), [..., N, d, d]: positions [..., N, axes], skew-symmetric A [..., axes, d, d].

    R(p)ᵀR(p′) = R(p′ − p) for all p, p′ only where the A_a commute.
    """
    A = torch.einsum("...na,...aij->...nij", positions, generators)
    return torch.matrix_exp(A.contiguous())  # it refuses some strides


def plane_rotation(angles: Tensor, axis: int) -> Tensor:
    """Rotations of space about one axis, [..., 3, 3]: the two channels after it, cyclically, turn by φ."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = torch.eye(3, dtype=angles.dtype, device=angles.device).repeat(*angles.shape, 1, 1)
    R[..., i, i] = R[..., j, j] = angles.cos()
    R[..., j, i], R[..., i, j] = angles.sin(), -angles.sin()
    return R


def spherical_rope(x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """z_j ↦ Y(ω_j^x p_x) T(ω_j^y p_y) z_j for the triplets z_j of x [..., N, 3m].

    T turns the last two channels of a triplet and Y the first two. positions [..., N, 2] are (y, x), and
    frequencies [2, m] likewise. Source: van de Geijn et al. 2025, arXiv 2511.08368.
    """
    tilt, yaw = (positions[..., None] * frequencies).unbind(-2)  # [..., N, m]
    turn = plane_rotation(yaw, 2) @ plane_rotation(tilt, 0)
    return (turn @ x.unflatten(-1, (-1, 3, 1))).flatten(-3)


# Linear attention and decoding.


def elu_feature(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1 > 0, elementwise: the feature map of Katharopoulos et al. 2020."""
    return torch.exp(x.clamp(max=0)) + x.clamp(min=0)


def feature_attention(q_moved: Tensor, k_moved: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Σ_j (q̃_i·k̃_j) v_j divided by Σ_j q_i·k_j for features with a position (q̃, k̃) and without."""
    return q_moved @ (k_moved.mT @ v) / (q @ k.sum(dim=-2)[..., None])


def rotary_linear_attention(
    q: Tensor, k: Tensor, v: Tensor, positions: Tensor, frequencies: Tensor, feature: Callable = elu_feature
) -> Tensor:
    """Σ_j (R_i φ(q_i))·(R_j φ(k_j)) v_j divided by Σ_j φ(q_i)·φ(k_j): relative, and linear in N.

    The rotation comes after φ; the denominator is not rotated and stays positive. Source: RoFormer.
    """
    q, k = feature(q), feature(k)
    return feature_attention(rope(q, positions, frequencies), rope(k, positions, frequencies), q, k, v)


def decode(q: Tensor, k: Tensor, v: Tensor, key_table: Tensor | None = None) -> Tensor:
    """Causal attention one token at a time, with a cache of keys and values that are never touched again.

    q, k [N, d], v [N, m]. With a table [2K+1, d] each step adds Shaw's q_t·R_{clip(j−t)} to its scores.
    """
    rows, d = [], q.shape[1]
    for t in range(len(q)):
        k_cache, v_cache = k[: t + 1], v[: t + 1]
        row = k_cache @ q[t]
        if key_table is not None:
            row = row + relative_lookup(key_table, torch.arange(t + 1) - t) @ q[t]
        rows.append(softmax(row / math.sqrt(d)) @ v_cache)
    return torch.stack(rows)
