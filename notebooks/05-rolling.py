# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Rolling queries and keys
#
# Attention does not know where a token stands. The paper's proposal {cite}`rollpe` is almost too simple to
# believe: before the dot product, roll the query and the key around a ring, by as many channels as the
# token's position. Does the score then depend on the distance between two tokens alone? And what exactly
# does the printed matrix do to a vector?

# %% tags=["parameters"]
n: int = 8  # channels on the ring [2..256]
query_position: int = 3  # where the query stands [-1000..1000]
key_position: int = 5  # where the key stands [-1000..1000]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import torch

from rollpe.figures import use_theme
from rollpe.operators import roll, shift_matrix

use_theme()
torch.manual_seed(seed)
TOLERANCE = 1e-12


def check(what: str, error: float) -> None:
    """Print the error of a check, and stop the page when it is too large."""
    print(f"{what}: largest error {error:.1e} (tolerance {TOLERANCE:.0e})")
    assert error <= TOLERANCE, what


# %% [markdown]
# ## Attention without positions
#
# Each token sends out a query, a key and a value. The rows of $Q$, $K$ and $V$ are those of the tokens, and
# $d$ is the number of channels:
#
# $$
# \operatorname{Attn}(Q, K, V) = \operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d}}\right) V
# $$ (eq-attention)
#
# Shuffle the tokens, and the rows of the result are shuffled in the same way: nothing else changes.

# %%
tokens, d = 6, 16
Q, K, V = torch.randn(3, tokens, d, dtype=torch.float64)


def attention(Q, K, V):
    return torch.softmax(Q @ K.T / d**0.5, dim=-1) @ V


order = torch.randperm(tokens)
shuffled = attention(Q[order], K[order], V[order])
check("attention is blind to order", (shuffled - attention(Q, K, V)[order]).abs().max().item())

# %% [markdown]
# ## The roll
#
# Bend the $n$ channels of one vector into a ring. The matrix $S$ has ones above the diagonal and a single one
# in its lower left corner; its power $S^p$ rolls a vector by $p$ channels:
#
# $$
# S = \begin{bmatrix}
# 0 & 1 & 0 & \cdots & 0 \\
# 0 & 0 & 1 & \cdots & 0 \\
# \vdots & & & \ddots & \vdots \\
# 0 & \cdots & 0 & 0 & 1 \\
# 1 & 0 & \cdots & 0 & 0
# \end{bmatrix}, \qquad \operatorname{Roll}_p(\mathbf{q}) = S^p \mathbf{q}
# $$ (eq-roll)
#
# A case to do by hand: four channels, one step.

# %%
q = torch.tensor([10, 20, 30, 40])
print("S =\n", shift_matrix(4, dtype=torch.int64).numpy(), sep="")
print("S q          =", (shift_matrix(4, dtype=torch.int64) @ q).tolist())
print("roll(q, 1)   =", roll(q, 1).tolist())

# %% [markdown]
# The first entry now holds what the second one held: $(S\mathbf q)_i = q_{i+1}$. The paper's sentence says
# that component $i$ *moves to* $i+p$. That is the mirror image, $S^{-p}$. Both readings describe the same
# family of functions, with left and right exchanged. This book keeps the printed matrix.

# %%
x = torch.randn(n, dtype=torch.float64)
S = shift_matrix(n)
power = torch.linalg.matrix_power(S, query_position) if query_position >= 0 else torch.linalg.matrix_power(S.T, -query_position)
check("roll equals the matrix power", (roll(x, query_position) - power @ x).abs().max().item())

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-rolling-wave", "caption": "One vector, rolled by the position of its token. Every row is the row above it, moved by one channel: a wave that travels around the ring."}, "image": {"alt": "A heat map with one row per position and one column per channel. A bright bump moves one channel to the left with each position, leaves at the left edge and comes back at the right edge."}}
ring = torch.arange(n, dtype=torch.float64)
bump = torch.exp(4 * (torch.cos(2 * torch.pi * (ring - n / 2) / n) - 1))
positions = torch.arange(2 * n)
figure, axis = plt.subplots(figsize=(6.4, 4.0))
image = axis.imshow(roll(bump, positions).numpy(), cmap="cividis", aspect="auto")
axis.set_xlabel("channel")
axis.set_ylabel("position of the token")
figure.colorbar(image, label="value")
plt.close(figure)  # one image, not two
figure

# %% [markdown]
# In {numref}`fig-rolling-wave` follow one bright stripe downward: it drifts to the left, leaves, and comes back
# on the other side after $n$ positions. This is the traveling wave of the title.
#
# ## The score
#
# Queries and keys are both rolled, each by the position of its own token:
#
# $$
# \alpha_{i,j} = \frac{\operatorname{Roll}_{p_i}(\mathbf{q}_i) \cdot \operatorname{Roll}_{p_j}(\mathbf{k}_j)}{\sqrt{d}}
# $$ (eq-score)
#
# $S$ is a permutation, so $S^\top S = I$, and all that is left of the two positions is their difference:
#
# $$
# (S^{p_q} \mathbf{q})^\top S^{p_k} \mathbf{k} = \mathbf{q}^\top S^{p_k - p_q} \mathbf{k}
# $$ (eq-shift-score)

# %%
q, k = torch.randn(2, n, dtype=torch.float64)
absolute = roll(q, query_position) @ roll(k, key_position)
relative = q @ roll(k, key_position - query_position)
print(f"with both positions {absolute:.6f}, with their difference {relative:.6f}")
check("the score knows the displacement alone", (absolute - relative).abs().item())
for shift in (1, n, 1000):
    moved = roll(q, query_position + shift) @ roll(k, key_position + shift)
    check(f"both tokens moved by {shift}", (moved - absolute).abs().item())

# %% [markdown]
# ```{admonition} In short
# :class: tip
# Rolling is a permutation of channels. It costs no parameter and no multiplication, and it is exact in any
# number format. The score depends on the displacement of two tokens, {eq}`eq-shift-score`, but counts it modulo $n$:
# two tokens that are $n$ apart look as if they stood at the same place.
# ```
#
# ```{exercise}
# :label: exercise-rolling-mirror
# Replace $S$ by $S^\top$ everywhere. Which of the statements on this page change?
# ```
#
# ```{solution} exercise-rolling-mirror
# :class: dropdown
# The wave of {numref}`fig-rolling-wave` travels to the right, and the score becomes
# $\mathbf q^\top S^{p_q - p_k} \mathbf k$. It still depends on the displacement alone: the sign is a convention.
# ```

# %% tags=["hide-cell"]
mirrored = roll(q, -query_position) @ roll(k, -key_position)
check("the mirror image", (mirrored - q @ roll(k, query_position - key_position)).abs().item())
