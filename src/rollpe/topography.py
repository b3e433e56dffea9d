"""Order along the channels: losses that encourage it and measures of it.

RollPE treats the rolled channels of a head as sensors on a circle; a topographic network treats its units as
points on a sheet.

Maps. A head's channels are laid out either on rings (one per position axis: the head is cut into
`axes` equal sub-vectors, and the first `width` channels of each form a ring, exactly the channels
that RollPE rolls) or on one sheet of `rows × columns` channels, row-major (those that `torus-roll`
rolls). Both wrap around.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from rollpe.errors import InputError, check_choice, check_whole

KINDS = ("ring", "sheet", "tdann")


def smoothness_ratio(x: Tensor, sheet: tuple[int, int] | None = None) -> Tensor:
    """Roughness of a signal along its channels: 0 constant, 1 white noise, 2 alternating.

        ρ(x) = xᵀLx / (‖x‖² · deg),   xᵀLx = Σ over edges (x_i − x_j)²

    L is the Laplacian of the undirected cycle, 2I − S − Sᵀ (sheet=None), or of the torus of
    `sheet = (rows, columns)`. For white noise E[xᵀLx/‖x‖²] = tr L / n = deg, which is 2 on a ring
    and 4 on a sheet; the ratio is relative to that. On a ring mode k has ρ = 2 sin²(πk/n).

    x [..., n] → [...]. A zero vector has ratio 0. Half precision is computed in float32.
    """
    x = _at_least_float32(x)
    grid = x.unsqueeze(-2) if sheet is None else _on_sheet(x, sheet)  # [..., rows, columns]
    energy, degree = torch.zeros_like(x[..., 0]), 0
    for axis in (-2, -1):
        if grid.shape[axis] > 1:  # a ring of one channel has no neighbors
            energy = energy + (grid.roll(-1, axis) - grid).square().sum((-2, -1))
            degree += 2
    norm = grid.square().sum((-2, -1)).clamp_min(torch.finfo(x.dtype).tiny)
    return energy / norm / max(degree, 1)


def position_average_gain(n: int, positions: int) -> Tensor:
    """Power gain of each mode of the ring under averaging over neighboring positions, float64 [n // 2 + 1].

        g_k = |F (1/G) Σ_{p<G} S^{−p} u|²_k / |F u|²_k = (sin(πGk/n) / (G sin(πk/n)))²,  g_0 = 1

    One weight serves all positions, so its gradient is the sum of their gradients, each rolled back by its
    own position. The part that G consecutive positions share passes a moving average over G channels, which
    keeps the modes below n/G.

    n: channels of the ring. positions: G, both at least 1 (InputError).
    """
    check_whole(1, n=n, positions=positions)
    k = torch.arange(1, n // 2 + 1, dtype=torch.float64)
    half = math.pi * k / n
    gain = (torch.sin(positions * half) / (positions * torch.sin(half))).square()
    return torch.cat((k.new_ones(1), gain))


def shuffled_ratio(level: Any, n: int) -> Any:
    """The mean smoothness ratio of the same channels over all orders on the ring.

        mean over π of ρ(x_π) = n/(n − 1) · (1 − P_0/‖x‖²)

    The mean of all channels is smooth in any order; the rest becomes white noise without mode 0. A measured
    ratio divided by this one shows the effect of the *order* of the channels.
    Proof: in a random order each neighbor is any other channel, E[x_i x_j] = ((Σx)² − ‖x‖²)/(n(n − 1)).

    level: P_0/‖x‖², the share of the power in mode 0 (`ring_spectrum`): a number, tensor or array of any
    shape, or its mean over many x, since the formula is linear in it. n: channels of the ring, at least 2
    (InputError). Returns the type of ``level``.
    """
    check_whole(2, n=n)  # a ring of one channel has no order
    return n / (n - 1) * (1 - level)


def spatial_correlation_loss(responses: Tensor, sheet: tuple[int, int]) -> Tensor:
    """The spatial loss of a topographic network, small if near units respond alike.

        loss = 1 − Pearson over pairs i<j of ( r_ij , 1/(d_ij + 1) )

    r_ij is the Pearson correlation of units i and j over the samples, d_ij their distance in
    channels on the sheet. 0 is perfect order, 1 none, 2 the opposite. If all r_ij are equal the
    correlation is undefined and the result has no meaning.
    Source: Margalit et al. 2024 (TDANN), relative spatial loss. Theirs samples neighborhoods of a
    sheet that does not wrap, in millimeters; here all pairs of one map are used, one channel is
    one unit of length, and distances are those along the torus that RollPE rolls on.

    responses [..., samples, units] with units = rows · columns → [...]. At least 3 units with
    unequal distances are needed (InputError). Half precision is computed in float32.
    """
    with torch.autocast(responses.device.type, enabled=False):
        x = _at_least_float32(responses)
        i, j, distance = _unit_pairs(sheet, x)
        if x.shape[-1] != sheet[0] * sheet[1]:
            raise InputError(_sheet_message(sheet, x.shape[-1]))
        x = _standardize(x, dim=-2)
        similarity = (x.transpose(-2, -1) @ x)[..., i, j]
        return 1 - (_standardize(similarity) * _standardize(1 / (distance + 1))).sum(-1)


def topography_loss(
    q: Tensor,
    k: Tensor,
    kind: str = "ring",
    *,
    axes: int = 2,
    width: int | None = None,
    sheet: tuple[int, int] | None = None,
) -> Tensor:
    """A regularizer on queries and keys, to be added to the task's loss with a small weight.

    - kind="ring": mean `smoothness_ratio` over batch, heads, tokens and the `axes` rings of a head (paper
      Sec. 4.1: penalize differences between neighboring latent dimensions).
    - kind="sheet": the same on one torus of `sheet = (rows, columns)` channels per head.
    - kind="tdann": mean `spatial_correlation_loss` over maps, samples = batch × tokens; a map is the sheet if
      one is given, otherwise each ring.

    The ring and sheet losses are scale-free, so shrinking q and k does not lower them. q and k are
    those before the encoding.

    q, k [B, heads, N, head_dim], any float dtype → scalar in at least float32, mean of q's and k's.
    `width` defaults to head_dim // axes; `sheet` uses the head's first rows · columns channels.
    """
    check_choice("kind", kind, KINDS)
    if kind == "sheet" and sheet is None:
        raise InputError("kind='sheet' needs sheet=(rows, columns), for example sheet=(8, 8).")
    if kind == "ring" and sheet is not None:
        raise InputError(f"kind='ring' has no sheet (got {sheet}). Use kind='sheet'.")
    return (_loss(q, kind, axes, width, sheet) + _loss(k, kind, axes, width, sheet)) / 2


def ring_spectrum(x: Tensor) -> Tensor:
    """Power by mode number along the channel ring, modes ±k added.

        P_0 = |x̂_0|²,  P_k = |x̂_k|² + |x̂_{−k}|²,  x̂ = Fx with the unitary DFT

    The powers add up to ‖x‖² (Parseval). For white noise every mode holds 2/n of it, mode 0 and,
    for even n, the Nyquist mode n/2 hold 1/n. A traveling wave keeps each P_k fixed.

    x [..., n] → [..., n // 2 + 1]. Half precision is computed in float32.
    """
    n = x.shape[-1]
    power = torch.fft.rfft(_at_least_float32(x), norm="ortho").abs().square()
    mode = torch.arange(n // 2 + 1, device=x.device)
    return torch.where((mode == 0) | (2 * mode == n), power, 2 * power)


def channel_correlation(moments: Tensor, means: Tensor) -> Tensor:
    """Pearson correlation of every two channels over the samples.

        r_ij = (M_ij − m_i m_j) / (σ_i σ_j),   σ_i² = M_ii − m_i²

    A channel's level and gain do not matter. One of variance 0 has correlation 0 with all; rounding of M may
    give a constant channel a variance.

    moments [..., n, n]: M_ij, the mean over samples of x_i x_j. means [..., n]: m_i. → [..., n, n].
    Half precision is computed in float32.
    """
    moments, means = _at_least_float32(moments), _at_least_float32(means)
    covariance = moments - means.unsqueeze(-1) * means.unsqueeze(-2)
    spread = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    scale = spread.unsqueeze(-1) * spread.unsqueeze(-2)
    return torch.where(scale > 0, covariance / scale, 0)


def correlation_by_distance(moments: Tensor, means: Tensor) -> Tensor:
    """Correlation of two channels of a ring by their distance.

        C(d) = mean over i of r_{i,i+d}

    r is `channel_correlation`. In a topographic map C falls with d; in random order it is the same for all
    d ≥ 1 on average. C(0) is 1, or less where channels have no variance.

    moments [..., n, n], means [..., n] as there. → [..., n // 2 + 1]. Half precision is computed in float32.
    """
    r = channel_correlation(moments, means)
    n = r.shape[-1]
    channel = torch.arange(n, device=r.device)
    return torch.stack([r[..., channel, (channel + d) % n].mean(-1) for d in range(n // 2 + 1)], -1)


def pack_correlations(r: Tensor) -> Tensor:
    """Symmetric correlations in few bytes: the pairs i < j of n channels, row by row; 127 is correlation 1.

    r [..., n, n] with ones on the diagonal → int8 [..., n(n − 1)/2], off by 0.004 at most.
    """
    i, j = torch.triu_indices(r.shape[-1], r.shape[-1], offset=1)
    return (127 * r[..., i, j]).round().to(torch.int8)


def unpack_correlations(packed: Tensor) -> Tensor:
    """What :func:`pack_correlations` packed: [..., n(n − 1)/2] → [..., n, n], float32.

    packed: int8, or means of such numbers, whose type is kept.
    """
    values = packed / 127
    n = (1 + math.isqrt(1 + 8 * packed.shape[-1])) // 2
    r = torch.eye(n, dtype=values.dtype).expand(*packed.shape[:-1], n, n).clone()
    i, j = torch.triu_indices(n, n, offset=1)
    r[..., i, j] = r[..., j, i] = values
    return r


def near_and_any(r: Tensor) -> tuple[Tensor, Tensor]:
    """Mean correlation of neighbors on the ring, and of any two channels.

        near = mean over i of r_{i,i+1},   any = mean over i≠j of r_ij

    In random order of the channels both would be equal on average. r [..., n, n], n ≥ 2 → two of [...].
    """
    n = r.shape[-1]
    i = torch.arange(n, device=r.device)
    pairs = r.sum((-2, -1)) - r.diagonal(dim1=-2, dim2=-1).sum(-1)
    return r[..., i, (i + 1) % n].mean(-1), pairs / (n * (n - 1))


def participation_ratio(r: Tensor) -> Tensor:
    """How many directions the responses of n channels fill: 1 to n.

        PR = (tr R)² / tr R² = n² / Σ_ij r_ij²

    1: all channels follow one signal, up to sign. n: no two correlate. A bump that stands anywhere on a ring
    needs at least two, the sine and the cosine of its place. r [..., n, n] with ones on the diagonal → [...].
    """
    return r.shape[-1] ** 2 / r.square().sum((-2, -1))


def without_first_component(r: Tensor) -> Tensor:
    """Correlations that remain after the strongest signal that channels share is taken out of each.

        R' = R − λ₁v₁v₁ᵀ, scaled to ones on the diagonal;  λ₁, v₁ the first eigenvalue and eigenvector of R

    One bump of varying strength leaves nothing but noise; a map keeps neighbors that correlate.
    r [..., n, n] → [..., n, n]. A channel of which nothing remains has correlation 0 with all.
    """
    values, vectors = torch.linalg.eigh(r)
    first = vectors[..., -1:]
    rest = r - values[..., -1, None, None] * first @ first.mT
    spread = rest.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt().unsqueeze(-1)
    scale = spread @ spread.mT
    return torch.where(scale > 1e-6, rest / scale, torch.eye(r.shape[-1], dtype=r.dtype, device=r.device))


def coherence(changes: Tensor) -> Tensor:
    """How nearly all N tokens of a sample ask for the same change: 0 to 1.

        κ = Σ ‖Σ_p u_p‖² / (N Σ Σ_p ‖u_p‖²),   outer sums over samples

    1: all u_p of a sample are equal. 1/N on average if they are independent. 0: they cancel, as for keys:
    attention does not change if all keys of a sample move alike.

    changes [B, ..., N, d]: B samples of u_p, such as gradients for encoded queries → [...]. 0 if all are 0.
    """
    same = changes.sum(-2).square().sum((0, -1))
    each = changes.shape[-2] * changes.square().sum((0, -2, -1))
    return same / each.clamp_min(torch.finfo(changes.dtype).tiny)


def attention_by_offset(weights: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Mean attention as a function of the signed offset Δ = key position − query position.

        mean(Δ) = average of weights[i, j] over the pairs with p_j − p_i = Δ

    weights [..., N, N] after softmax; positions [M, axes], M ≤ N. The first N − M tokens have no
    position and are left out. Returns offsets [O, axes] in lexicographic order and means [..., O].
    Offsets are compared exactly, so real positions should be multiples of a power of two.
    """
    if positions.dim() != 2:
        raise InputError(
            f"positions has shape {tuple(positions.shape)}. "
            "Use one [M, axes] for the whole batch, or call once per sample."
        )
    m = positions.shape[0]
    weights = _at_least_float32(weights)[..., -m:, -m:].flatten(-2)  # [..., M·M], query-major
    delta = (positions[None, :] - positions[:, None]).flatten(0, 1)  # [M·M, axes]
    offsets, index = delta.unique(dim=0, return_inverse=True)
    total = weights.new_zeros(*weights.shape[:-1], len(offsets)).index_add(-1, index, weights)
    return offsets, total / torch.bincount(index, minlength=len(offsets))


def _loss(x: Tensor, kind: str, axes: int, width: int | None, sheet: tuple[int, int] | None) -> Tensor:
    if sheet is None:
        maps = _rings(x, axes, width)  # [B, heads, N, axes, width]
    else:
        units = sheet[0] * sheet[1]
        if units > x.shape[-1]:
            raise InputError(_sheet_message(sheet, x.shape[-1]))
        maps = x[..., None, :units]  # [B, heads, N, 1, units]
    if kind != "tdann":
        return smoothness_ratio(maps, sheet).mean()
    responses = maps.permute(1, 3, 0, 2, 4).flatten(2, 3)  # [heads, maps, B·N, units]
    return spatial_correlation_loss(responses, sheet or (1, maps.shape[-1])).mean()


def _rings(x: Tensor, axes: int, width: int | None) -> Tensor:
    """The channels that roll: [..., head_dim] → [..., axes, width]."""
    size = x.shape[-1] // axes
    width = size if width is None else width
    if not 1 <= width <= size:
        raise InputError(
            f"width={width} does not fit {x.shape[-1]} channels cut into {axes} axes. Use 1 to {size}."
        )
    return x[..., : size * axes].unflatten(-1, (axes, size))[..., :width]


def _on_sheet(x: Tensor, sheet: tuple[int, int]) -> Tensor:
    if sheet[0] * sheet[1] != x.shape[-1]:
        raise InputError(_sheet_message(sheet, x.shape[-1]))
    return x.unflatten(-1, sheet)


def _sheet_message(sheet: tuple[int, int], channels: int) -> str:
    return (
        f"sheet={sheet[0]}x{sheet[1]} needs {sheet[0] * sheet[1]} channels and there are "
        f"{channels}. Choose rows and columns to match."
    )


def _unit_pairs(sheet: tuple[int, int], like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Indices i < j of all pairs of units and their distances, each [pairs]."""
    rows, columns = sheet
    i, j = torch.triu_indices(rows * columns, rows * columns, offset=1)
    dy, dx = (i // columns - j // columns).abs(), (i % columns - j % columns).abs()
    dy, dx = torch.minimum(dy, rows - dy), torch.minimum(dx, columns - dx)
    distance = (dy.square() + dx.square()).to(like.dtype).sqrt()
    if len(distance.unique()) < 2:
        raise InputError(
            f"sheet={rows}x{columns} has no unequal distances to correlate with. Use more channels."
        )
    return i.to(like.device), j.to(like.device), distance.to(like.device)


def _standardize(x: Tensor, dim: int = -1) -> Tensor:
    """Mean 0 and length 1 along `dim`, so that a product of two is their Pearson correlation."""
    x = x - x.mean(dim, keepdim=True)
    return x / x.norm(dim=dim, keepdim=True).clamp_min(torch.finfo(x.dtype).eps)


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()
