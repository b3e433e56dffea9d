"""AdamW whose second moment of queries and keys is kept in other coordinates than their channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rollpe.encodings import Encoding
from rollpe.encodings.roll import on_ring
from rollpe.errors import InputError
from rollpe.ring import real_fourier_basis
from rollpe_lab.training.recipe import Coordinates

SEED = 42
"""Of the random bases, one for each ring of a layer; the same in all layers and runs."""


class QueryKeyAdamW(torch.optim.Optimizer):
    """AdamW on the projections of attention, with queries and keys divided in coordinates B of their rings.

        g = B ∇,   m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   w ← (1 − ηλ)w − η Bᵀ m̂ / (√v̂ + ε)

    B takes heads to rings (`rollpe.encodings.roll.on_ring`) and these to the coordinates; values keep theirs.
    "ring" takes the mean of g² over the n channels of a ring, for each input, which makes a step that no
    basis of the ring alters. "fourier" makes the steps of AdamW on the rotary twin. Momentum and decay have
    no basis.

    groups: as for torch.optim.AdamW, of each layer's ``qkv.weight`` [rows, inputs] and ``qkv.bias`` [rows].
    encoding: of a layer. Its heads are cut into rings of ``part`` channels without a rest (InputError).
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        encoding: Encoding,
        coordinates: Coordinates,
        *,
        lr: Any,
        betas: tuple[float, float],
    ) -> None:
        super().__init__(list(groups), {"lr": lr, "betas": betas, "eps": 1e-8})
        n, axes, width = encoding.part, encoding.axes, encoding.head_dim
        if n * axes != width:
            raise InputError(
                f"second_moment={coordinates!r}: {width} channels are no {axes} rings. Use 'channels'."
            )
        heads = 2 * encoding.heads * encoding.waves_in  # of queries and keys
        self.shape, self.pooled = (heads, axes, n), coordinates == "ring"
        basis = torch.eye(n, dtype=torch.float64).expand(*self.shape, n)
        if coordinates == "fourier":
            basis = real_fourier_basis(n)[0].mT.expand(*self.shape, n)
        if coordinates == "random":
            generator = torch.Generator().manual_seed(SEED)
            basis = torch.linalg.qr(torch.randn(basis.shape, dtype=basis.dtype, generator=generator)).Q
        to_rings = on_ring(encoding, torch.eye(width, dtype=torch.float64)).mT.view(axes, n, width)
        self.basis = (basis @ to_rings).flatten(1, 2).to(self.param_groups[0]["params"][0])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (beta1, beta2), rate = group["betas"], group["lr"]
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state |= {"m": torch.zeros_like(w), "v": torch.zeros_like(w), "step": w.new_zeros(())}
                m, v, t = state["m"], state["v"], state["step"].add_(1)
                g = self._by_head(w.grad, lambda x: self.basis @ x)
                squares = self._by_head(g.square(), self._pool) if self.pooled else g.square()
                m.lerp_(g, 1 - beta1)
                v.lerp_(squares, 1 - beta2)
                move = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
                w.mul_(1 - rate * group["weight_decay"])
                w.sub_(rate * self._by_head(move, lambda x: self.basis.mT @ x))

    def _by_head(self, x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        """x with its rows of queries and keys changed as [heads, channels, inputs]."""
        heads, axes, n = self.shape
        ours, values = x[: heads * axes * n], x[heads * axes * n :]
        return torch.cat((change(ours.reshape(heads, axes * n, -1)).reshape(ours.shape), values))

    def _pool(self, x: Tensor) -> Tensor:
        rings = x.unflatten(1, self.shape[1:])
        return rings.mean(2, keepdim=True).expand_as(rings).flatten(1, 2)
