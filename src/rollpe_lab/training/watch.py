"""Queries and keys inside a transformer, in training and afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe import topography
from rollpe.decoder import Decoder
from rollpe.encodings import Encoding, grid_positions
from rollpe.encodings.biases import ScoreBias
from rollpe.encodings.roll import on_ring
from rollpe.vit import VisionTransformer

Model = VisionTransformer | Decoder
TINY = torch.finfo(torch.float32).tiny


@contextmanager
def queries_and_keys(model: Model) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect the queries and keys of every layer before its encoding.

    After each forward pass the yielded list holds one pair q, k [B, heads, N, streams·head_dim] a layer; the
    next pass replaces them. Gradients flow through them.
    """
    pairs: list[tuple[Tensor, Tensor]] = []
    queries: list[Tensor] = []

    def new_pass(*_: Any) -> None:
        pairs.clear()
        queries.clear()

    def see_query(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        queries.append(output)

    def see_key(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        pairs.append((queries.pop(), output))

    with ExitStack() as hooks:
        hooks.enter_context(model.register_forward_pre_hook(new_pass))
        for attention in model.attentions:
            hooks.enter_context(attention.q_norm.register_forward_hook(see_query))
            hooks.enter_context(attention.k_norm.register_forward_hook(see_key))
        yield pairs


def disorder(pairs: list[tuple[Tensor, Tensor]], head_dim: int) -> Tensor:
    """The topographic loss of one forward pass along the ring, a scalar: the mean over layers and waves."""
    waves = [
        (q_wave, k_wave)
        for q, k in pairs
        for q_wave, k_wave in zip(q.split(head_dim, -1), k.split(head_dim, -1), strict=True)
    ]
    return torch.stack([topography.topography_loss(q, k, "ring") for q, k in waves]).mean()


@torch.no_grad()
def observe(model: Model, images: Tensor, batch: int = 64) -> dict[str, np.ndarray]:
    """Attention and channels of a trained model on normalized images [B, channels, H, W] or text [B, N].

    offsets [O, axes]: key position − query position; images have two axes, text has one. attention
    [layers, heads, O]: mean attention weight by offset, softmax over all tokens that the query sees. bias
    [layers, heads, O], of encodings that add one to the scores: its mean by offset. query_spectrum,
    key_spectrum [layers, heads, axes, modes]: share of the power by mode number along the ring of each axis.
    query_roughness, key_roughness [layers, heads, axes]: 1 is white noise, see
    `rollpe.topography.smoothness_ratio`. query_correlation, key_correlation [layers, heads, axes, distances]:
    of two channels over images and patches, by their distance around the ring. ``roll-twin`` is measured on
    the ring of ``roll``; of a multiplexed roll, only the first wave. Patches only; float32.
    """
    model.eval()
    positions = grid_positions(*model.grid_of(images), device=images.device)
    sums: dict[str, Tensor] = {}
    offsets = torch.empty(0)
    for start in range(0, len(images), batch):
        part = images[start : start + batch]
        with queries_and_keys(model) as pairs:
            model(part)
        layers: list[dict[str, Tensor]] = []
        for attention, (q, k) in zip(model.attentions, pairs, strict=True):
            encoding = attention.encoding
            q, k = q.float(), k.float()
            weights = encoding.weights(q, k, positions, is_causal=model.causal)
            offsets, by_offset = topography.attention_by_offset(weights, positions)
            found = {"attention": by_offset.sum(0)}
            if isinstance(encoding, ScoreBias):
                bias = encoding.mask(q, k, positions).expand_as(weights)
                found["bias"] = topography.attention_by_offset(bias, positions)[1].sum(0)
            for name, x in (("query", q), ("key", k)):
                rings = on_rings(encoding, x[..., -len(positions) :, :])  # [B, heads, N, axis, channels]
                power = topography.ring_spectrum(rings)
                share = power / power.sum(-1, keepdim=True)
                found[f"{name}_spectrum"] = share.mean(2).sum(0)
                found[f"{name}_roughness"] = topography.smoothness_ratio(rings).mean(2).sum(0)
                found[f"{name}_products"], found[f"{name}_means"] = _moments(rings)
            layers.append(found)
        for key in layers[0]:
            stacked = torch.stack([layer[key] for layer in layers])
            sums[key] = sums[key] + stacked if key in sums else stacked
    means = {key: total / len(images) for key, total in sums.items()}
    for name in ("query", "key"):
        moments = means.pop(f"{name}_products"), means.pop(f"{name}_means")
        means[f"{name}_correlation"] = topography.correlation_by_distance(*moments)
    means["offsets"] = offsets
    return {key: values.cpu().numpy().astype(np.float32) for key, values in means.items()}


def gradients(
    model: Model, images: Tensor, labels: Tensor, label_smoothing: float = 0.0
) -> dict[str, Tensor]:
    """The loss's gradient for queries and keys: its spectrum on the ring, Adam's sign of it, its coherence.

    query_gradient, key_gradient [layers, heads, 2, modes]: of the gradient for the weights that make queries
    or keys, the share of the power by mode number along the ring of each axis, all inputs together.
    query_step, key_step: the same for its signs; times the learning rate, these are Adam's first step. Rings
    and waves as in :func:`observe`.

    query_coherence, key_coherence [layers, heads], of encodings with one wave: whether all patches need the
    same change, `rollpe.topography.coherence` of u_p = ∂L/∂(E(p) q_p), the gradient for the encoded query.

    images normalized [B, channels, H, W], labels int64 [B]; or characters and their successors [B, N].
    Dropout is off, and gradients are cleared afterwards. float32.
    """
    model.eval()
    positions = grid_positions(*model.grid_of(images), device=images.device)
    with queries_and_keys(model) as pairs:
        logits = model(images).flatten(0, -2)
    for x in (x for pair in pairs for x in pair):
        x.retain_grad()
    targets = labels.flatten()
    targets = targets.repeat_interleave(len(logits) // len(targets))  # patches with a loss each
    F.cross_entropy(logits, targets, label_smoothing=label_smoothing).backward()
    found: dict[str, list[Tensor]] = {}
    for attention, pair in zip(model.attentions, pairs, strict=True):
        encoding, weights = attention.encoding, attention.qkv.weight.grad
        assert weights is not None
        width = encoding.heads * encoding.waves_in * encoding.head_dim
        for_queries, for_keys = (cast(Tensor, x.grad) for x in pair)
        with torch.no_grad():
            encoded = encoding(for_queries, for_keys, positions) if encoding.waves_in == 1 else ()
        for name, u in zip(("query", "key"), encoded, strict=False):
            u = u[..., -len(positions) :, :].float()
            found.setdefault(f"{name}_coherence", []).append(topography.coherence(u))
        for name, rows in (("query", weights[:width]), ("key", weights[width : 2 * width])):
            by_input = rows.unflatten(0, (encoding.heads, -1)).transpose(1, 2)  # [heads, inputs, channels]
            for what, x in (("gradient", by_input), ("step", by_input.sign())):
                power = topography.ring_spectrum(on_rings(encoding, x.float())).sum(1)
                share = power / power.sum(-1, keepdim=True).clamp_min(TINY)
                found.setdefault(f"{name}_{what}", []).append(share)
    model.zero_grad(set_to_none=True)
    return {key: torch.stack(values).cpu() for key, values in found.items()}


@torch.no_grad()
def fewer_waves(model: Model, images: Tensor, labels: Tensor, power: Tensor | None = None) -> Tensor:
    """The loss on some images if queries and keys keep m of the waves of each ring, m = 1, 2, …: [modes].

    The m slowest; or the m of most power, with power [layers, heads, axes, modes]. Queries and keys of every
    token are projected before the encoding; the weights stay as trained. The last number keeps all waves and
    is the model's own loss. Rings as in :func:`observe`, images and labels as in :func:`gradients`; of text,
    the first 64 windows. Cross-entropy in nats without label smoothing. float32.
    """
    model.eval()
    if labels.dim() > 1:
        images, labels = images[:64], labels[:64]
    encoding = model.attentions[0].encoding
    n, axes = encoding.part, encoding.axes
    to_rings = on_ring(encoding, torch.eye(encoding.head_dim, device=images.device))  # orthogonal
    if power is None:
        power = -torch.arange(n // 2 + 1.0).expand(len(model.attentions), encoding.heads, axes, -1)
    rank = power.to(images.device).argsort(-1, descending=True).argsort(-1)[:, :, None, None]
    losses = []
    for kept in range(1, n // 2 + 2):

        def project(_module: Any, _inputs: Any, x: Tensor, *, layer: int, kept: int = kept) -> Tensor:
            waves = x.float().unflatten(-1, (-1, len(to_rings))) @ to_rings
            rings = waves[..., : axes * n].unflatten(-1, (axes, n))
            slow = torch.fft.irfft(torch.fft.rfft(rings) * (rank[layer] < kept), n)
            waves = torch.cat((slow.flatten(-2), waves[..., axes * n :]), -1)
            return (waves @ to_rings.mT).flatten(-2).to(x.dtype)

        with ExitStack() as hooks:
            for layer, attention in enumerate(model.attentions):
                for norm in (attention.q_norm, attention.k_norm):
                    hooks.enter_context(norm.register_forward_hook(partial(project, layer=layer)))
            logits = model(images).float().unflatten(0, (len(images), -1))
        by_label = logits.flatten(0, -2) if labels.dim() > 1 else logits.flatten(1, -2).mean(1)
        losses.append(F.cross_entropy(by_label, labels.flatten()))
    return torch.stack(losses)


@torch.no_grad()
def channel_frame(model: Model, images: Tensor, batch: int = 64) -> Tensor:
    """Correlation of every two channels of a ring at one moment, over images and patches as in `observe`.

    → int8 [2, layers, heads, axes, n(n − 1)/2] on the CPU, queries and keys, as packed by
    `rollpe.topography.pack_correlations`. Leaves the model in evaluation mode.
    """
    model.eval()
    patches = math.prod(model.grid_of(images))
    sums: list[Tensor] = []
    for start in range(0, len(images), batch):
        with queries_and_keys(model) as pairs:
            model(images[start : start + batch])
        rings = [
            torch.stack([on_rings(a.encoding, x.float()) for a, x in zip(model.attentions, xs, strict=True)])
            for xs in zip(*pairs, strict=True)
        ]
        found = _moments(torch.stack(rings)[..., -patches:, :, :])
        sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else [*found]
    correlations = topography.channel_correlation(*(total / len(images) for total in sums))
    return topography.pack_correlations(correlations).cpu()


@torch.no_grad()
def token_rms(model: Model, images: Tensor) -> Tensor:
    """Root mean square of the embedded patches or characters, and of the code added to them: float32 [2]."""
    x = (model.embed if isinstance(model, Decoder) else model.patch_embed)(images).flatten(1, -2)
    grid = model.grid_of(images)
    code = model.token_encoding.add(torch.zeros_like(x), grid_positions(*grid, device=x.device), grid)
    return torch.stack([part.square().mean().sqrt() for part in (x, code)]).cpu()


def frame_arrays(frames: Mapping[int, Mapping[str, Tensor]]) -> dict[str, np.ndarray]:
    """What a record keeps of the moments of a training: frame_steps, and the rest by moment.

    frames [moments, …]: see `channel_frame`. frame_token_rms [moments, 2]: see `token_rms`.
    frame_query_gradient and so on: see `gradients`.
    """
    if not frames:
        return {}
    steps, found = zip(*sorted(frames.items()), strict=True)
    stacked = {key: torch.stack([frame[key] for frame in found]).cpu().numpy() for key in found[0]}
    return {**stacked, "frame_steps": np.array(steps, dtype=np.int32)}


def _moments(rings: Tensor) -> tuple[Tensor, Tensor]:
    """Products of two channels, and channels: mean over patches, sum over images.

    rings [..., B, heads, N, axes, n] → [..., heads, axes, n, n] and [..., heads, axes, n].
    """
    products = torch.einsum("...bhnai,...bhnaj->...haij", rings, rings) / rings.shape[-3]
    return products, rings.mean(-3).sum(-4)


def on_rings(encoding: Encoding, x: Tensor) -> Tensor:
    """Queries or keys [..., streams·head_dim] as rings [..., axes, channels]; of several waves the first.

    A ring holds all channels of its axis, including those that a narrower ``width`` does not roll.
    """
    x = on_ring(encoding, x[..., : encoding.head_dim])
    return x[..., : encoding.axes * encoding.part].unflatten(-1, (encoding.axes, -1))
