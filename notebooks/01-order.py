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
# one: the words of a sentence, or the patches of an image. What changes? Only the order of the outputs changes: each
# token gets the same result as before, in its new place. A classifier that averages the tokens gives exactly the same
# answer.
#
# The paper opens with the remark that self-attention is "permutation-invariant" {cite}`rollpe`. The exact word is
# permutation *equivariant*. This chapter shows the difference by hand and proves it. Then it measures what a small
# image classifier loses without positions, and lists what brings order back.

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
#
# In the cells of the text, we write each equation out:


# %%
def softmax(A):
    shares = torch.exp(A)
    return shares / shares.sum(dim=-1, keepdim=True)


def attention(Q, K, V):
    A = Q @ K.mT / math.sqrt(Q.shape[-1])
    return softmax(A) @ V


# %% [markdown]
# Then `agree` compares the results with those of `rollpe`, this book's library, and here with PyTorch's, too. It prints
# the largest difference and stops if this is more than rounding. The mark beside each equation says whether its check
# passed, and on a screen it unfolds to the difference.

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
# Now hand the tokens over in the order $c, a, b$. The sum for $a$ has the same three terms in another order. So $a$
# still gets 42, in another row.

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
# A new order $\pi$ of the tokens is a multiplication by a permutation matrix $P$, which has a single one in every
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
# computed token by token. Rows and columns of the scores are therefore shuffled together:
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
# \operatorname{softmax}(A) V$, because $P^\top P = I$.
#
# The theorem holds for any projections; the scores need not be symmetric.


# %%
def Attn(X):
    return attention(X @ W_Q, X @ W_K, X @ W_V)


A = Q @ K.T / math.sqrt(d)
agree("eq-scores-permuted", P @ (Q @ K.T) @ P.T, Q[π] @ K[π].T)
differs("eq-scores-permuted", A, A.T)  # the scores are not symmetric
agree("eq-softmax-permuted", formulas.softmax(P @ A @ P.T), P @ softmax(A) @ P.T)
agree("eq-permutation-equivariance", Attn(P @ X), P @ Attn(X))
differs("eq-permutation-equivariance", Attn(P @ X), Attn(X))  # not invariant

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-shuffled-attention", "caption": "Attention weights of seven tokens, before and after a shuffle. Each token keeps its letter. The outlined cell is the same pair of tokens in both."}, "image": {"alt": "Two seven by seven heat maps of attention weights. The left has rows and columns labelled a to g in order, the right has the same labels in a shuffled order. The same cell, one query and one key, is outlined in red in both and has the same shade."}}
letters, order = "abcdefg", P.argmax(dim=1).tolist()
weights = softmax(2 * A)
fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.2))
row, column = divmod(weights.clone().fill_diagonal_(0).argmax().item(), tokens)
for axis, image, names, title in (
    (axes[0], weights, list(letters), "before"),
    (axes[1], P @ weights @ P.T, [letters[i] for i in order], "after the shuffle"),
):
    shown = axis.imshow(image.numpy(), vmin=0, vmax=weights.max().item())
    axis.set(
        title=title,
        xlabel="key",
        xticks=range(tokens),
        xticklabels=names,
        yticks=range(tokens),
        yticklabels=names,
    )
    axis.tick_params(length=0)
    cell = names.index(letters[column]) - 0.5, names.index(letters[row]) - 0.5
    axis.add_patch(
        plt.Rectangle(
            cell, 1, 1, fill=False, edgecolor=figures.VERMILION, linewidth=2.5
        )
    )
axes[0].set_ylabel("query")
fig.colorbar(shown, ax=axes, label="attention weight", shrink=0.85)
plt.close(fig)
fig

# %% [markdown]
# Find a row of {numref}`fig-shuffled-attention` by its letter, not by its height: each token gives each other token
# the same weight before and after the shuffle.
#
# ## Equivariant, then invariant
#
# Attention is *equivariant*: its result is shuffled along with its input. *Invariant* would mean that the result
# stays the same. The rest of a transformer layer adds no order either: norms, residual sums and the MLP treat every
# token by itself. So a stack of any number of layers is equivariant, too.
#
# Invariance enters at the very end. A classifier averages the tokens, or uses only a class token, which has no place in
# the order. Its output is then the same for every order. With $\mathbf 1$ for a column of $N$ ones, one for each token:
#
# $$
# \tfrac{1}{N} \mathbf{1}^\top \operatorname{Attn}(PX) = \tfrac{1}{N} \mathbf{1}^\top \operatorname{Attn}(X)
# $$ (eq-pooled)
#
# The classifier sees a *bag* of tokens: which ones there are, and how often, but not where. Deep sets
# {cite}`zaheer2017deep` are the general theory of such functions.

# %%
mean = torch.ones(1, tokens, dtype=torch.float64) / tokens  # 1ᵀ/N
agree("eq-pooled", mean @ Attn(P @ X), mean @ Attn(X))

# %% [markdown]
# ## A bag of patches
#
# Does that matter for images? A vision transformer cuts an image into square patches and makes each a token
# {cite}`dosovitskiy2021image`. We train a classifier of two layers on the handwritten digits of scikit-learn. Its
# one switch, `places`, gives each place in the image a learned vector that is added to the patch there.


# %%
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


# %% [markdown]
# We train it twice, with and without places, on images whose patches are in order. Then we test both on images in
# order and on the same images with their patches shuffled, each image in its own way.

# %%
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
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=0.01,
        total_steps=steps,
    )
    for _ in range(epochs):
        for batch in torch.randperm(len(train)).split(64):
            logits, labels = model(train[batch]), data.train.labels[batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, labels).backward()
            optimizer.step()
            schedule.step()
    return model.eval().requires_grad_(False)


models = {"without": fit(places=False), "with": fit(places=True)}
for name, model in models.items():
    for kind, patches in (("in order", test), ("shuffled", test_shuffled)):
        right = model(patches).argmax(dim=-1) == data.test.labels
        share = 100 * right.float().mean()
        result = f"{right.sum():3d} of {len(right)} right ({share:.1f} %)"
        print(f"{name:>7} places, patches {kind}: {result}")


# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-bag-of-patches", "caption": "Five test images and the same images with their patches shuffled, with the answers of the models without and with places below. The two rows are the same five inputs for the model without places."}, "image": {"alt": "Two rows of five small gray digits. The upper row shows legible digits. The lower row shows the same patches in random places, illegible. Below each, the answers of the two models: the model without places answers the same in both rows, the model with places mostly changes its answer."}}
def glue(patches):
    """The inverse of cut, for a picture."""
    return nn.functional.fold(
        patches.mT, data.test.images.shape[-2:], patch_size, stride=patch_size
    )[:, 0]


firsts = [int((data.test.labels == label).nonzero()[0]) for label in (0, 2, 3, 5, 7)]
fig, axes = plt.subplots(2, len(firsts), figsize=(6.8, 3.9))
for line, (kind, patches) in zip(
    axes, (("in order", test), ("shuffled", test_shuffled)), strict=True
):
    pictures = glue(patches[firsts])
    answers = {
        name: model(patches[firsts]).argmax(dim=-1).tolist()
        for name, model in models.items()
    }
    for column, axis in enumerate(line):
        axis.imshow(pictures[column].numpy(), cmap="gray_r", vmin=0, vmax=1)
        for edge in range(patch_size, pictures.shape[-1], patch_size):
            axis.axhline(edge - 0.5, color=figures.ORANGE, linewidth=0.6)
            axis.axvline(edge - 0.5, color=figures.ORANGE, linewidth=0.6)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
        for name, height, color in (
            ("without", -0.05, figures.VERMILION),
            ("with", -0.20, figures.BLUE),
        ):
            text = axis.text(
                0.5,
                height,
                f"{name}: {answers[name][column]}",
                ha="center",
                va="top",
                fontsize=9,
            )
            text.set(color=color, transform=axis.transAxes)
        if kind == "in order":
            axis.set_title(
                f"a {data.test.labels[firsts[column]]}",
                loc="center",
                fontweight="normal",
            )
    line[0].set_ylabel(kind)
plt.close(fig)
fig

# %% [markdown]
# The lower row of {numref}`fig-bag-of-patches` is illegible. The model without places still gives the same five
# answers as in the upper row, and the same number of correct answers over all test images. The model with places is
# far more often correct when the patches are in order; on shuffled patches it is close to chance.
#
# The counts are equal because the logits of every single image agree, up to rounding:

# %%
model = models["without"].double()
logits = model(test.double())
agree("logits of shuffled images", logits, model(test_shuffled.double()))

# %% [markdown]
# Many other images have the same patches:


# %%


def arrangements(patches) -> int:
    """How many different images can be laid with these patches.

    N! over the factorials of how often each patch occurs.
    """
    repeats = torch.unique(patches, dim=0, return_counts=True)[1].tolist()
    same = math.prod(math.factorial(r) for r in repeats)
    return math.factorial(len(patches)) // same


counts = sorted(arrangements(patches) for patches in test)
median = counts[len(counts) // 2]
print(f"{N} patches can be laid in {median:.1e} ways (median image)")

# %% [markdown]
# All these arrangements are the same input for the model without places.
#
# A bag of patches classifies far better than chance, because the strokes that occur already say a lot about a digit.
# The difference between the two models is what positions are worth here. It depends on the size of the patches, which
# you can choose: `rollpe notebook notebooks/01-order.py -p patch_size 1` runs this chapter with tokens of one pixel,
# and only the histogram of gray levels is left. With `-p patch_size 4` most of the order is kept *inside* the patches.
#
# ## What breaks the symmetry
#
# Positions enter attention in two main ways: through the tokens or through the scores. In the first, a *code* $c_p$
# that depends on the position $p$ is added to the token at that position. In general, that breaks the symmetry. With
# the codes as rows of a matrix $C$:
#
# $$
# \begin{gathered} x_p \mapsto x_p + c_p, \\
# \operatorname{Attn}(PX + C) \neq P \operatorname{Attn}(X + C) \end{gathered}
# $$ (eq-added)

# %%
C = torch.randn(tokens, width, dtype=torch.float64)  # a code for each place
differs("eq-added", Attn(P @ X + C), P @ Attn(X + C))
agree("eq-added", Attn(P @ X + C[0]), P @ Attn(X + C[0]))  # one code for all places

# %% [markdown]
# In the second, the score of a pair depends on where the two tokens are. The simplest form adds to the scores a *bias*:
# a matrix $\beta$ that is the same for all inputs. A bias that does not break the symmetry stays *blind* to the order,
# and few do:
#
# ```{prf:proposition} The only biases that stay blind
# :label: prop-bias
# For three or more tokens and a finite $\beta$,
# ```
#
# $$
# \begin{aligned} & \operatorname{softmax}(PAP^\top + \beta) \\
# & \quad = P \operatorname{softmax}(A + \beta) P^\top \ \text{ for all } A, P \\
# & \Longleftrightarrow \quad \beta = aI + u\mathbf{1}^\top \end{aligned}
# $$ (eq-blind-bias)
#
# Here $a$ is a bonus for a token's score with itself, and $u_i$ is one number for all of row $i$, which the
# softmax cancels.
#
# ```{prf:proof}
# By {eq}`eq-softmax-permuted` the right-hand side of the first equation is $\operatorname{softmax}(PAP^\top + P\beta
# P^\top)$, and two rows of scores have the same softmax only if they differ by a constant. So the first equation says
# that $\gamma = \beta - P\beta P^\top$ is constant along each row, for every $P$. Let $P$ exchange $j$ and $k$, both
# different from $i$: then $\gamma_{ij} = \beta_{ij} - \beta_{ik}$ and $\gamma_{ik} = \beta_{ik} - \beta_{ij}$ are
# equal, hence zero. Off the diagonal each row is constant. Let $P$ exchange $i$ and $k$: then $\gamma_{ii} =
# \gamma_{ij}$ reads $\beta_{ii} - \beta_{ij} = \beta_{kk} - \beta_{kj}$. So the diagonal exceeds its row by the same
# $a$ everywhere. The converse is a substitution.
# ```


# %%
def both_sides(beta):
    return softmax(P @ A @ P.T + beta), P @ softmax(A + beta) @ P.T


a, u = 1.7, torch.randn(tokens, 1, dtype=torch.float64)
agree("eq-blind-bias", *both_sides(a * torch.eye(tokens) + u))  # aI + u1ᵀ
one_pair = torch.zeros(tokens, tokens)
one_pair[0, 1] = 0.01
differs("eq-blind-bias", *both_sides(one_pair))

# %% [markdown]
# A mask is a bias, too, with $-\infty$ for the pairs that must not attend. Autoregressive language models use a
# causal mask: each token attends only to itself and to earlier ones. With this mask alone, a transformer can learn
# order {cite}`haviv2022transformer`. Patches of an image have no before and after, so they need an encoding.

# %%
causal_mask = torch.full((tokens, tokens), -torch.inf).triu(1)
differs("a causal mask", *both_sides(causal_mask))

# %% [markdown]
# ## Positions travel with their tokens
#
# In {eq}`eq-added` the codes stay in their places while the tokens move. If each token takes its code along, the
# symmetry is back:

# %%
agree("tokens and codes moved", Attn(P @ (X + C)), P @ Attn(X + C))

# %% [markdown]
# An encoding does not abolish {eq}`eq-permutation-equivariance`: it makes the position a part of the token, and a set
# of tokens with their positions *is* an image. This is why a transformer may drop patches or reorder them, as long
# as each keeps its position.
#
# ```{admonition} In short
# :class: tip
# - Attention is equivariant: shuffle its tokens, and the same results come out, shuffled.
# - A classifier that averages the tokens is invariant: it gives the same output for an image and for its shuffled
#   patches.
# - Order comes back through the tokens, as an added code, or through the scores: by a bias, by a mask, or by rotating or
#   rolling queries and keys.
# - The only finite biases that stay blind to the order are a bonus for a token's score with itself and a number for each
#   row ({prf:ref}`prop-bias`).
# ```
#
# ## Exercises
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
# row. But the other rows have changed, because each now has a different past. The second layer attends to those
# rows, so there the result of the last token changes.
# ```


# %% tags=["hide-cell"]
def causal(X):
    A = (X @ W_Q) @ (X @ W_K).T / math.sqrt(d)
    return softmax(A + causal_mask) @ X @ W_V


front = torch.cat((torch.arange(tokens - 1).flip(0), torch.tensor([tokens - 1])))
agree("last row, one layer", causal(X[front])[-1], causal(X)[-1])
differs("last row, two layers", causal(causal(X[front]))[-1], causal(causal(X))[-1])

# %% [markdown]
# ```{exercise}
# :label: exercise-order-fixed
# Shuffle the patches of *every* image, in training and in testing, in one and the same order. Is this harder
# for the model with learned places? Would it be harder for a model that encodes distances between patches?
# ```
#
# ```{solution} exercise-order-fixed
# :class: dropdown
# It is not harder for the model with learned places. Shuffle the rows of its table of places in the same order, and
# every token that enters the first layer is the same as before. So the model can express the same classifiers. For an
# encoding of distances it is harder. A learned table does not say which places are neighbors. Distances do, and a fixed
# shuffle destroys just that: neighbors are no longer near.
# ```

# %% tags=["hide-cell"]
placed = models["with"].double()
fixed = torch.randperm(N, generator=torch.Generator().manual_seed(seed + 1))
before = placed(test.double())
placed.places = nn.Parameter(placed.places[fixed], requires_grad=False)
agree(
    "one order for all images, table included", placed(test[:, fixed].double()), before
)
