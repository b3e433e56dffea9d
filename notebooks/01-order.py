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
# # Attention ignores order
#
# A *positional encoding* tells a transformer where each of its tokens is. Shuffle the tokens of a transformer without
# one, the words of a sentence or the patches of an image. What changes? Only the order of the outputs changes: each
# token gets the same result as before, in its new place. A classifier that averages its tokens gives the same answer.
#
# The paper calls self-attention "permutation-invariant" {cite}`rollpe`; the exact word is permutation *equivariant*.
# This chapter shows the difference by hand, proves it, and measures what a small classifier loses without positions.

# %% tags=["parameters"]
patch_size: int = 2  # side of a patch in pixels; the digits are 8×8 {1|2|4}
epochs: int = 15  # passes over the training images [1..200]
seed: int = 0  # seed of weights, training order and shuffles [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch
from torch import nn

from rollpe import formulas
from rollpe_book import figures
from rollpe_book.agree import agree, differs
from rollpe_book.chapters.parameters import begin
from rollpe_lab.training import load_dataset

begin(globals())
torch.manual_seed(seed)
figures.use_theme()

# %% [markdown]
# ## Attention, by hand
#
# Each token has a query (what it looks for), a key (what it can be found by) and a value (what it passes on).
# Attention gives each token a weighted mean of all values; a weight is large where the query matches the key.
# Queries, keys and values are the rows of $Q$, $K$ and $V$, and $d$ is the number of channels of a query (the paper's
# Eq. 1):
#
# $$
# \operatorname{Attn}(Q, K, V) = \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d}}\right) V
# $$ (eq-attention)
#
# The softmax turns each row of scores into shares that add up to one:
#
# $$
# \operatorname{softmax}(A)_{ij} = \frac{e^{A_{ij}}}{\sum_{l} e^{A_{il}}}
# $$ (eq-softmax)


# %%
def softmax(A):
    shares = torch.exp(A)
    return shares / shares.sum(dim=-1, keepdim=True)


def attention(Q, K, V):
    A = Q @ K.mT / math.sqrt(Q.shape[-1])
    return softmax(A) @ V


# %% [markdown]
# Then `agree` compares our lines with `rollpe`, this book's library, and here with PyTorch. It stops if they differ by
# more than rounding. The mark beside each equation unfolds to the largest difference.

# %%
Q, K = torch.randn(2, 2, 5, 4, dtype=torch.float64)  # two sequences of five tokens
V = torch.randn(2, 5, 3, dtype=torch.float64)
A = Q @ K.mT / math.sqrt(4)
large = formulas.softmax(A + 1000)  # the library avoids overflow
agree("eq-softmax", [formulas.softmax(A), large], [softmax(A), softmax(A)])
found = [attention(Q, K, V), formulas.attention(Q, K, V), formulas.scores(Q, K)]
pytorch = nn.functional.scaled_dot_product_attention(Q, K, V)
agree("eq-attention", found, [pytorch, pytorch, A])

# %% [markdown]
# Take three tokens, $a$, $b$ and $c$, with a single channel each. Their queries are $0, 1, 2$, their keys $0,
# \ln 2, \ln 3$ and their values $84, 42, 0$. The exponentials undo the logarithms and leave integers:
#
# | token | its query | shares of $a : b : c$ | its result |
# | --- | --- | --- | --- |
# | $a$ | 0 | $1 : 1 : 1$ | $(84 + 42 + 0)/3 = 42$ |
# | $b$ | 1 | $1 : 2 : 3$ | $(84 + 2 \cdot 42 + 3 \cdot 0)/6 = 28$ |
# | $c$ | 2 | $1 : 4 : 9$ | $(84 + 4 \cdot 42 + 9 \cdot 0)/14 = 18$ |
#
# In the order $c, a, b$, the sum for $a$ has the same three terms, so $a$ still gets 42, in another row.

# %%
q = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
k = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64).log()
v = torch.tensor([[84.0], [42.0], [0.0]], dtype=torch.float64)

abc = attention(q, k, v).flatten()
cab = attention(*(x[[2, 0, 1]] for x in (q, k, v))).flatten()
print("a b c →", abc.round(decimals=9).tolist())
print("c a b →", cab.round(decimals=9).tolist())
agree("the hand calculation", [abc, cab], [[42, 28, 18], [18, 42, 28]])

# %% [markdown]
# ## The same for any tokens
#
# In self-attention, queries, keys and values come from the same tokens, the rows of $X$. We write
# $\operatorname{Attn}(X)$ for $\operatorname{Attn}(Q, K, V)$ with
#
# $$
# Q = X W_Q, \quad K = X W_K, \quad V = X W_V
# $$ (eq-self-attention)

# %%
tokens, width, d = 7, 12, 4
X = torch.randn(tokens, width, dtype=torch.float64)
W_Q, W_K = torch.randn(2, width, d, dtype=torch.float64) / math.sqrt(width)
W_V = torch.randn(width, width, dtype=torch.float64) / math.sqrt(width)
Q, K, V = X @ W_Q, X @ W_K, X @ W_V
library = formulas.self_attention(X, W_Q, W_K, W_V)
agree("eq-self-attention", library, attention(Q, K, V))

# %% [markdown]
# To put the tokens into a new order $\pi$, multiply them by a permutation matrix $P$, which has a single one in every
# row and column. A square bracket with a statement in it is 1 where the statement is true, and 0 elsewhere:
#
# $$
# \begin{gathered} (PX)_i = X_{\pi(i)}, \qquad P^\top P = I, \\
# P_{ij} = [\, j = \pi(i) \,] \end{gathered}
# $$ (eq-permutation)

# %%
σ = torch.randperm(tokens)
π = σ.roll(1)[σ.argsort()]  # a random order that moves every token
P = (torch.arange(tokens) == π[:, None]).double()
found = [P @ X, P.T @ P, torch.eye(tokens)[π]]
agree("eq-permutation", found, [X[π], torch.eye(tokens), P])

# %% [markdown]
# ```{prf:theorem} Attention is permutation equivariant
# :label: thm-equivariance
# For all tokens $X$, all projections $W_Q, W_K, W_V$ and every permutation matrix $P$, shuffling the tokens
# shuffles the result and does nothing else:
# ```
#
# $$
# \operatorname{Attn}(PX) = P \operatorname{Attn}(X)
# $$ (eq-permutation-equivariance)
#
# The proof takes three steps. First, queries, keys and values are shuffled, $Q \mapsto PQ$ and so on, since each is
# computed token by token. This shuffles rows and columns of the scores together:
#
# $$
# (PQ)(PK)^\top = P \, QK^\top P^\top
# $$ (eq-scores-permuted)
#
# Second, the softmax keeps this form. It divides each row by the sum of that row, and a sum does not depend on the
# order of its terms:
#
# $$
# \operatorname{softmax}(P A P^\top) = P \operatorname{softmax}(A) P^\top
# $$ (eq-softmax-permuted)
#
# Third, the shuffled weights multiply the shuffled values: $P \operatorname{softmax}(A) P^\top P V = P
# \operatorname{softmax}(A) V$, because $P^\top P = I$. The scores need not be symmetric for this.


# %%
def Attn(X):
    return attention(X @ W_Q, X @ W_K, X @ W_V)


A = Q @ K.T / math.sqrt(d)
agree("eq-scores-permuted", P @ (Q @ K.T) @ P.T, Q[π] @ K[π].T)
differs("eq-scores-permuted", A, A.T)  # the scores are not symmetric
agree("eq-softmax-permuted", formulas.softmax(P @ A @ P.T), P @ softmax(A) @ P.T)
agree("eq-permutation-equivariance", Attn(P @ X), P @ Attn(X))
differs("eq-permutation-equivariance", Attn(P @ X), Attn(X))  # not invariant

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-shuffled-attention", "caption": "Attention weights of seven tokens, before and after a shuffle. Each token keeps its letter. The outlined cell is the same pair of tokens in both."}, "image": {"alt": "Two seven by seven heat maps of attention weights, one above the other. The upper has rows and columns labelled a to g in order, the lower has the same labels in a shuffled order. The same cell, one query and one key, is outlined in red in both and has the same shade."}}
weights = softmax(2 * A)
row, column = divmod(weights.clone().fill_diagonal_(0).argmax().item(), tokens)
fig, axes = plt.subplots(2, 1, figsize=(4.2, 6.2))
for axis, order, title in (
    (axes[0], range(tokens), "before"),
    (axes[1], π.tolist(), "after the shuffle"),
):
    order = list(order)
    shown = axis.imshow(weights[order][:, order], vmin=0, vmax=weights.max().item())
    axis.set(title=title, ylabel="query", xlabel="key")
    axis.set_xticks(range(tokens), ["abcdefg"[i] for i in order])
    axis.set_yticks(range(tokens), ["abcdefg"[i] for i in order])
    axis.tick_params(length=0)
    corner = order.index(column) - 0.5, order.index(row) - 0.5
    axis.add_patch(
        plt.Rectangle(corner, 1, 1, fill=False, edgecolor=figures.VERMILION, lw=2.5)
    )
fig.colorbar(shown, ax=axes, label="attention weight", shrink=0.6)
plt.close(fig)
fig

# %% [markdown]
# Find a row of {numref}`fig-shuffled-attention` by its letter: the token gives each other token the same weight before
# and after the shuffle.
#
# ## Equivariant, then invariant
#
# The rest of a transformer adds no order: norms, residual sums and the MLP treat every token by itself. Any number of
# layers is therefore equivariant. Invariance enters at the end, where a classifier averages the tokens, or uses only a
# class token, which has no place in the order. With $\mathbf 1$ for a column of $N$ ones:
#
# $$
# \tfrac{1}{N} \mathbf{1}^\top \operatorname{Attn}(PX) = \tfrac{1}{N} \mathbf{1}^\top \operatorname{Attn}(X)
# $$ (eq-pooled)
#
# The classifier sees a *bag* of tokens {cite}`zaheer2017deep`: which ones there are, but not where.

# %%
mean = torch.ones(1, tokens, dtype=torch.float64) / tokens  # 1ᵀ/N
agree("eq-pooled", mean @ Attn(P @ X), mean @ Attn(X))

# %% [markdown]
# ## A bag of patches
#
# Does that matter for images? A vision transformer cuts an image into square patches and makes each a token
# {cite}`dosovitskiy2021image`. We train a classifier of two layers on handwritten digits twice: without places, and
# with a learned vector for each place, which is added to the patch there. We test both on images in order and on the
# same images with their patches shuffled, each in its own way.


# %% tags=["hide-input"]
class Layer(nn.Module):
    """Attend to the other tokens, then treat each token by itself.

    The library's softmax subtracts a row's maximum first: large scores are safe.
    """

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        x = x + formulas.attention(*self.project(self.norm(x)).chunk(3, dim=-1))
        return x + self.mlp(x)


class Classifier(nn.Module):
    """Patches [..., N, pixels] → logits [..., 10].

    With places=True each of the N places owns a learned vector.
    """

    def __init__(self, N: int, pixels: int, places: bool, width: int = 48):
        super().__init__()
        self.embed = nn.Linear(pixels, width)
        self.places = nn.Parameter(torch.randn(N, width)) if places else 0.0
        self.layers = nn.Sequential(Layer(width), Layer(width))
        self.head = nn.Linear(width, 10)

    def forward(self, patches):
        tokens = self.embed(patches) + self.places
        return self.head(self.layers(tokens).mean(dim=-2))


def cut(images):
    """Images [B, 1, H, W] → patches [B, N, pixels], row by row, ink = 1."""
    size = patch_size
    return nn.functional.unfold(images / 255, size, stride=size).mT


def shuffle(patches, generator):
    """Each image's patches in an order of its own."""
    N = patches.shape[1]
    orders = [torch.randperm(N, generator=generator) for _ in patches]
    return torch.stack([p[o] for p, o in zip(patches, orders, strict=True)])


# %% tags=["hide-input"]
data = load_dataset("digits")
train, test = cut(data.train.images), cut(data.test.images)
test_shuffled = shuffle(test, torch.Generator().manual_seed(seed))
N, pixels = train.shape[1:]


def fit(places: bool) -> Classifier:
    """AdamW, a rising and falling learning rate, batches of 64."""
    torch.manual_seed(seed)
    model = Classifier(N, pixels, places)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = epochs * math.ceil(len(train) / 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(train)).split(64):
            logits, labels = model(train[batch]), data.train.labels[batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, labels).backward()
            optimizer.step()
            schedule.step()
    return model.eval().requires_grad_(False)


# %%
models = {"without": fit(places=False), "with": fit(places=True)}
for name, model in models.items():
    for kind, patches in (("in order", test), ("shuffled", test_shuffled)):
        right = model(patches).argmax(dim=-1) == data.test.labels
        share = 100 * right.float().mean()
        result = f"{right.sum():3d} of {len(right)} right ({share:.1f} %)"
        print(f"{name:>7} places, patches {kind}: {result}")


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-bag-of-patches", "caption": "Four test images and the same images with their patches shuffled, with the answers of the models without and with places below. The two rows are the same four inputs for the model without places."}, "image": {"alt": "Two rows of four small gray digits. The upper row shows legible digits. The lower row shows the same patches in random places, illegible. Below each, the answers of the two models: the model without places answers the same in both rows, the model with places mostly changes its answer."}}
def glue(patches):
    """The inverse of cut, for a picture."""
    size = data.test.images.shape[-2:]
    return nn.functional.fold(patches.mT, size, patch_size, stride=patch_size)[:, 0]


firsts = [int((data.test.labels == label).nonzero()[0]) for label in (0, 2, 3, 7)]
fig, axes = plt.subplots(2, 4, figsize=(5.8, 4.1))
for line, (kind, patches) in zip(
    axes, (("in order", test), ("shuffled", test_shuffled)), strict=True
):
    pictures = glue(patches[firsts])
    answers = [m(patches[firsts]).argmax(dim=-1).tolist() for m in models.values()]
    for column, axis in enumerate(line):
        axis.imshow(pictures[column], cmap="gray_r", vmin=0, vmax=1)
        for edge in range(patch_size, pictures.shape[-1], patch_size):
            axis.axhline(edge - 0.5, color=figures.ORANGE, linewidth=0.6)
            axis.axvline(edge - 0.5, color=figures.ORANGE, linewidth=0.6)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
        for name, answer, height, color in zip(
            models,
            answers,
            (-0.05, -0.20),
            (figures.VERMILION, figures.BLUE),
            strict=True,
        ):
            words = f"{name}: {answer[column]}"
            place = {"transform": axis.transAxes, "ha": "center", "va": "top"}
            axis.text(0.5, height, words, color=color, fontsize=9, **place)
        if kind == "in order":
            title = f"a {data.test.labels[firsts[column]]}"
            axis.set_title(title, loc="center", fontweight="normal")
    line[0].set_ylabel(kind)
plt.close(fig)
fig

# %% [markdown]
# The lower row of {numref}`fig-bag-of-patches` is illegible, and the model without places gives the same four answers
# as in the upper row. It is far better than chance, because the strokes that occur already say a lot about a digit. The
# model with places is far more often correct on images in order, which is what positions are worth here, and close to
# chance on shuffled ones.
#
# Without places, shuffling changes no answer, because the logits of every single image agree:

# %%
model = models["without"].double()
logits = model(test.double())
agree("logits of shuffled images", logits, model(test_shuffled.double()))

# %% [markdown]
# ## What breaks the symmetry
#
# Positions enter attention through the tokens or through the scores. The first way adds a *code* $c_p$ to the token at
# position $p$. With the codes as rows of a matrix $C$, this breaks the symmetry in general:
#
# $$
# \begin{gathered} x_p \mapsto x_p + c_p, \\
# \operatorname{Attn}(PX + C) \neq P \operatorname{Attn}(X + C) \end{gathered}
# $$ (eq-added)

# %%
C = torch.randn(tokens, width, dtype=torch.float64)  # a code for each place
differs("eq-added", Attn(P @ X + C), P @ Attn(X + C))
agree("eq-added", Attn(P @ (X + C)), P @ Attn(X + C))  # each token takes its code along

# %% [markdown]
# If each token takes its code along, the symmetry is back, as the last line shows. A transformer may therefore drop or
# reorder the patches of an image, as long as each keeps its position.
#
# The second way makes the score of a pair depend on where the two tokens are: it adds a number to the score, masks it,
# or rotates or rolls query and key. A causal mask, under which each token attends only to itself and to earlier ones,
# is enough for a transformer to learn order {cite}`haviv2022transformer`. Patches of an image have no before and
# after, so they need an encoding.
#
# ## Exercise
#
# ```{exercise}
# :label: exercise-order-causal
# Take one causal attention layer without positions and shuffle all tokens but the last. What happens to the
# result of the last token? And with two layers?
# ```
#
# ```{solution} exercise-order-causal
# :class: dropdown
# After one layer its result is the same: the last token attends to all tokens, so the mask removes nothing from its
# row. The other rows have changed, because each now has a different past. The second layer attends to those rows, so
# there the result of the last token changes.
# ```


# %% tags=["hide-cell"]
def causal(X):
    A = (X @ W_Q) @ (X @ W_K).T / math.sqrt(d)
    return softmax(A + torch.full_like(A, -torch.inf).triu(1)) @ X @ W_V


front = torch.cat((torch.arange(tokens - 1).flip(0), torch.tensor([tokens - 1])))
assert torch.allclose(causal(X[front])[-1], causal(X)[-1])
assert not torch.allclose(causal(causal(X[front]))[-1], causal(causal(X))[-1])

# %% [markdown]
# `rollpe notebook notebooks/01-order.py -p patch_size 1` runs this chapter with tokens of one pixel, of which only the
# histogram of gray levels is left. With `-p patch_size 4` most of the order is kept *inside* the patches.
