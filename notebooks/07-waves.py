# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,mystnb,-all
#     formats: ipynb,py:percent
#     notebook_metadata_filter: kernelspec,jupytext,-all
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Several waves at once
#
# RollPE (`roll`) rolls each query and key around a ring of channels by the position of its token, so that their score
# is relative: it depends only on the offset of the two tokens ({doc}`04-rolling`). Yet the best number in the paper's
# table belongs to multiplexed RollPE
# (`multiplexed-roll`).{holds}`printed: multiplexed-roll > axial-rope > roll > learned` There each query and key is a sum
# of several vectors that travel around the ring at different speeds {cite}`rollpe`, as waves in the brain carry several
# events at a time {cite}`king2021human`.
#
# The paper says that multiplexed RollPE is more accurate, has more parameters and is not relative: perhaps relativity
# does not matter. But the logits and the number of operations grow along with the parameters, as the table below shows.
# This page says which part of a score is no longer relative, and what a fair experiment would compare.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [4..128]
waves: int = 2  # waves in each query and key [2..4]
tokens: int = 24  # tokens in a row [4..64]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch
from IPython.display import Markdown
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rollpe.encodings import create_encoding, grid_positions
from rollpe.operators import multiplexed_roll, roll, shift_matrix, wave_period
from rollpe.textbook import multiplexed_parameters
from rollpe.vit import create_vit
from rollpe_book import figures
from rollpe_book.agree import agree, gap

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)


# %% tags=["hide-input"]
def first_logits(encoding: str, **options) -> float:
    """Spread of the logits in the first layer of an untrained ViT-S."""
    torch.manual_seed(seed)
    model = create_vit(encoding, depth=1, encoding_options=options).float()
    with torch.no_grad():
        x, positions = model.embed(torch.randn(2, 3, 32, 32).float())
        attention = model.blocks[0].attn
        wide = attention.encoding.streams * model.embed_dim
        qkv = attention.qkv(model.blocks[0].norm1(x))
        q, k = (
            part.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
            for part in qkv[..., : 2 * wide].chunk(2, dim=-1)
        )
        q, k = attention.encoding(q, k, positions)
    return (q @ k.mT / attention.head_dim**0.5).std().item()


def count_parameters(encoding: str, **options) -> int:
    """Trained numbers of a ViT-S, counted in the model itself."""
    with torch.device("meta"):
        model = create_vit(encoding, encoding_options=options)
    return sum(parameter.numel() for parameter in model.parameters())


def column(encoding: str, **options) -> list[tuple[str, float | None]]:
    """What the table says of an encoding in a ViT-S: words, and numbers to compare."""
    model = create_vit(encoding, encoding_options=options).float()
    attention = model.blocks[0].attn
    speeds = getattr(attention.encoding, "speeds", (1,))
    relative = "yes" if attention.encoding.relative else "no"
    wide = 2 * attention.encoding.streams * model.embed_dim  # queries and keys
    projected = sum(part[:wide].numel() for part in attention.qkv.parameters())
    trained = count_parameters(encoding, **options)
    logits = first_logits(encoding, **options)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(torch.zeros(1, 3, 32, 32).float())
    operations = counter.get_total_flops()
    return [
        (", ".join(map(str, speeds)), None),
        (relative, None),
        (f"{projected:,}", projected),
        (f"{trained:,}", trained),
        (f"{len(speeds) ** 2}", len(speeds) ** 2),
        (f"± {logits:.3f}", logits),
        (f"{operations / 1e9:.2f} billion", operations),
        (f"{wide:,}", wide),
    ]


rows = [
    "speeds: channels rolled for each position",
    "relative: the score depends only on the offset",
    "parameters of a block's query and key projections",
    "parameters of the model",
    "products of two waves that add up to a logit",
    "spread of the first block's logits, before training",
    "operations in matrix products, one image forward",
    "numbers moved by the rolls, each token and block",
]
lines = [
    f"| ViT-S, images of 32 pixels | RollPE | multiplexed, {waves} waves | ratio |",
    "| :-- | --: | --: | --: |",
]
columns = column("roll"), column("multiplexed-roll", waves=waves)
for row, (word, number), (other, larger) in zip(rows, *columns, strict=True):
    ratio = "" if number is None else f"{larger / number:.2f}"
    lines.append(f"| {row} | {word} | {other} | {ratio} |")
Markdown("\n".join(lines))

# %% [markdown]
# Only the first two rows are about relativity. The parameters and the size of the logits change, too, and each of them
# could change an accuracy by itself.
#
# ## The sum
#
# In place of one projection, a token $x$ gets $W$ of them:
#
# $$
# q^{(w)} = W_Q^{(w)} x, \qquad w = 1, \dots, W
# $$ (eq-waves)
#
# Wave $w$ rolls by $w$ channels for each position, and all waves are added on the same ring:
#
# $$
# \mathrm{MPRoll}_p(q) = \sum_{w=1}^{W} \mathrm{Roll}_{wp}\bigl( q^{(w)} \bigr)
# $$ (eq-multiplexed)
#
# Keys likewise. A case to do by hand, with four channels and two waves: let the first wave be a one at
# channel 0, the second a one at channel 1. Each step moves the first by one place, the second by two.

# %%
first, second = torch.eye(4, dtype=torch.int64)[:2]
for p in range(4):
    total = multiplexed_roll(torch.stack((first, second)), p)
    alone = [roll(first, p).tolist(), roll(second, 2 * p).tolist()]
    print(f"p = {p}:  {alone[0]} + {alone[1]} = {total.tolist()}"
          f"   squared length {total.square().sum()}")  # fmt: skip

# %% [markdown]
# At $p = 1$ the fast wave has caught up with the slow one, and they add up. So the length of the sum depends on the
# position of the token: a multiplexed roll is not a rotation.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-multiplexed-waves", "caption": "One query at every position. Each wave alone keeps its shape and its speed; their sum keeps neither."}, "image": {"alt": "Heat maps side by side with channels across and positions downward. In the first, one bright stripe drifts slowly to the left as the position grows. In the next, the stripe drifts twice as fast. In the last, both stripes are drawn over each other, and where they cross a brighter spot appears."}}
ring = torch.arange(n)
steps = torch.arange(n)


def bump(center: float, width: float = 0.035) -> torch.Tensor:
    """A smooth bump around the ring."""
    return torch.exp((torch.cos(2 * torch.pi * (ring - center) / n) - 1) / width)


shapes = torch.stack(
    [bump(n * (3 + 2 * w) / 4) for w in range(waves)]
)  # they meet at p = n/2
alone = [roll(shapes[w], (w + 1) * steps) for w in range(waves)]
together = multiplexed_roll(shapes.expand(n, -1, -1), steps)
fig, axes = plt.subplots(
    1, waves + 1, figsize=(7.2, 6.4 / (waves + 1) + 0.6), sharey=True
)
titles = [f"wave {w + 1}" for w in range(waves)] + ["their sum"]
for axis, values, title in zip(axes, [*alone, together], titles, strict=True):
    image = axis.imshow(values, vmin=0, vmax=together.max(), aspect="auto")
    axis.set(title=title, xlabel="channel")
axes[0].set_ylabel("position of the token")
fig.colorbar(image, ax=axes, label="value", shrink=0.9)
plt.close(fig)
fig

# %% [markdown]
# Look at the crossings in {numref}`fig-multiplexed-waves`. They are places in the image, not relations between tokens:
# a token at such a place has a longer query than its neighbors.
#
# ```{wave} speeds
# :name: wave-speeds
# Waves of speed $1, \dots, W$, each on a ring of its own, and their sum on the ring outside. All start as one
# bump at channel 0; dots mark how far each has come. Right, or below on a narrow page: the sum at every position.
# ```
#
# ## Which terms break
#
# Multiply the two sums out. Every wave of the query meets every wave of the key:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w, w'} \bigl( q^{(w)} \bigr)^\top S^{\,w' p_k - w p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-score)
#
# Write $p_k = p_q + \Delta$, and the exponents sort the terms into two kinds:
#
# $$
# \begin{aligned} & \mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k) \\
# & \quad = \sum_{w} q^{(w)\top} S^{\,w \Delta} \, k^{(w)} \\
# & \quad + \sum_{w \neq w'} q^{(w)\top} S^{\,w' \Delta + (w' - w) p_q} \, k^{(w')} \end{aligned}
# $$ (eq-multiplexed-split)
#
# The $W$ terms in which a wave meets itself depend only on the offset. The $W(W-1)$ cross terms also depend on the
# position of the query. They change if both tokens move by $s$:
#
# $$
# \begin{gathered} p \mapsto p + s: \\
# S^{\,w' p_k - w p_q} \mapsto S^{\,w' p_k - w p_q} \, S^{\,(w' - w) s} \end{gathered}
# $$ (eq-multiplexed-shift)

# %%
q, k = torch.randn(2, tokens, waves, n)
p = torch.arange(tokens)
s = next(s for s in range(3, n) if math.gcd(s, n) == 1)  # moves every cross term


def rolled(x, p):
    """Every wave rolled by itself: [w, tokens, n]."""
    return torch.stack([roll(x[:, w], (w + 1) * p) for w in range(waves)])


def terms(q, k, p):
    """Wave w of each query against wave w' of each key: [w, w', query, key]."""
    return rolled(q, p)[:, None] @ rolled(k, p).mT


here, moved = terms(q, k, p), terms(q, k, p + s)
score = multiplexed_roll(q, p) @ multiplexed_roll(k, p).T
agree("the terms add up to the score", here.sum((0, 1)), score, tolerance=1e-11)
for w in range(waves):
    for v in range(waves):
        k_turned = roll(k[:, v], (v - w) * s)  # what the shift does to this term
        expected = roll(q[:, w], (w + 1) * p) @ roll(k_turned, (v + 1) * p).T
        change = gap(moved[w, v], here[w, v])
        print(f"wave {w + 1} · wave {v + 1} changes by up to {change:4.1f}")
        agree(f"wave {w + 1} · wave {v + 1}", moved[w, v], expected)
        assert (change < 1e-11) == ((v - w) * s % n == 0)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-multiplexed-terms", "caption": "One score, taken apart into wave of the query · wave of the key, with the same content at every position. Along a dotted line the offset is constant."}, "image": {"alt": "Square heat maps of query position against key position. Where a wave meets itself, bright stripes run parallel to the dotted diagonals, more of them for the faster wave. In the cross terms the stripes are steeper or flatter than the diagonals. The large panel with the sum shows all stripes crossing each other in a woven pattern."}}
same = shapes.expand(tokens, -1, -1)
panels = terms(same, same, p)
fig = plt.figure(figsize=(7.2, 3.7))
left, right = fig.subfigures(1, 2, width_ratios=[1, 1])
axes = left.subplots(waves, waves, sharex=True, sharey=True, squeeze=False)
whole = right.subplots()
shown = [
    (axes[w, v], panels[w, v], f"{w + 1} · {v + 1}")
    for w in range(waves)
    for v in range(waves)
]
for axis, values, title in [*shown, (whole, panels.sum((0, 1)), "all terms together")]:
    axis.imshow(values, vmin=0)
    for start in range(-tokens, tokens, max(tokens // 4, 1)):
        axis.axline(
            (start, 0),
            slope=1,
            color=figures.ON_DARK,
            linewidth=0.8,
            linestyle=":",
            alpha=0.8,
        )
    axis.set(xlim=(-0.5, tokens - 0.5), ylim=(tokens - 0.5, -0.5))
    axis.set_title(title, fontsize=9)
    axis.set_xticks([0, tokens - 1])
    axis.set_yticks([0, tokens - 1])
left.supxlabel("position of the key", fontsize=10)
left.supylabel("position of the query", fontsize=10)
whole.set_xlabel("position of the key")
plt.close(fig)
fig

# %% [markdown]
# In the small panels on the diagonal of {numref}`fig-multiplexed-terms`, the stripes follow the dotted lines: these
# terms are relative. In the other panels the score is constant where $w' p_k - w p_q$ is, so it prefers places in the
# image, not offsets.
#
# How much of the score is relative? If the projections are independent, all $W^2$ terms are equally strong, and $W$ of
# them are relative: with two waves half of the variance, with three a third. Training can change this. A model that
# silences all waves but one is RollPE.
#
# ```{prf:proposition}
# :label: prop-multiplexed-average
# Average the score over all starting places on the ring, at a fixed offset. If $n$ shares no factor with
# $w' - w$, the cross term of $w$ and $w'$ averages to $\frac1n \bigl(\sum_i q^{(w)}_i\bigr) \bigl(\sum_i
# k^{(w')}_i\bigr)$, a constant.
# ```
#
# ```{prf:proof}
# In the cross term the starting place appears as $S^{(w'-w)p_q}$. As $p_q$ runs through the ring, so does
# $(w'-w)p_q$, and the average of all powers of $S$ is the matrix with every entry $1/n$.
# ```
#
# With two waves $w' - w = \pm 1$, and this always applies. Multiplexing then adds an absolute encoding to a relative
# one, and averaged over all places on the ring the absolute one favors no offset. A row of patches covers only part of
# the ring, so in an image the average is not quite constant.

# %% tags=["hide-input"]
around = torch.arange(n)
q_one, k_one = torch.randn(2, waves, n)
delta = 5
rolled_q = multiplexed_roll(q_one.expand(n, -1, -1), around)
rolled_k = multiplexed_roll(k_one.expand(n, -1, -1), around + delta)
average = (rolled_q * rolled_k).sum(-1).mean()
predicted = torch.zeros(())
for w in range(waves):
    for v in range(waves):
        if w == v:
            predicted += q_one[w] @ roll(k_one[w], (w + 1) * delta)
        else:  # here S^(w'-w) goes round the ring
            mean = sum(roll(k_one[v], (v - w) * around + (v + 1) * delta)) / n
            predicted += q_one[w] @ mean
            if math.gcd(abs(v - w), n) == 1:
                flat = k_one[v].mean().expand(n)
                agree(f"cross term {w + 1} · {v + 1}, averaged", mean, flat)
agree("the score, averaged over all places", average, predicted)

# %% [markdown]
# ## Periods
#
# A faster wave comes round sooner only if its speed shares a factor with $n$:
#
# $$
# \min \{ p > 0 : S^{wp} = I \} = \frac{n}{\gcd(w, n)}
# $$ (eq-wave-period)

# %%
print("channels   period of wave 1 to 4   offsets of 8 tokens told apart")
for width in (30, 31, 32):
    periods = [wave_period(width, w) for w in (1, 2, 3, 4)]
    offsets = torch.arange(-7, 8)
    ramp = torch.arange(width)
    apart = [len(roll(ramp, w * offsets).unique(dim=0)) for w in (1, 2, 3, 4)]
    assert apart == [min(period, 15) for period in periods]
    print(f"{width:8}   {periods!s:21}   {apart} of 15")

# %% [markdown]
# A vision transformer with heads of 64 channels gives 32 to each axis. There the fourth wave has a period of eight, so
# on eight patches in a row it does not distinguish one step to the left from seven steps to the right. On a ring whose
# length is a prime, every wave has the full period.
#
# On such a ring, the speed of a single wave is only an order of its channels:
#
# $$
# \begin{gathered} S^{w} = P^\top S \, P, \qquad (P x)_i = x_{w i \bmod n}, \\
# \gcd(w, n) = 1 \end{gathered}
# $$ (eq-wave-relabel)
#
# Take every $w$-th channel instead of every channel, and the wave of speed $w$ is the wave of speed 1. Projections can
# learn either order. So several speeds bring no new frequencies: modulo $2\pi$, the multiples of $2\pi/n$ only change
# their order. The relative part of {eq}`eq-multiplexed-split` is then what RollPE computes in a head with $W$ rings side
# by side. Only the cross terms go beyond that.

# %%
S = shift_matrix(n)
for w in range(2, 6):
    if math.gcd(w, n) == 1:
        P = torch.eye(n)[w * ring % n]
        power = torch.linalg.matrix_power(S, w)
        agree(f"speed {w} is speed 1 in another order", power, P.T @ S @ P)
    else:
        period = wave_period(n, w)
        print(f"speed {w} shares a factor with {n}: its period is {period}")

prime, delta = 31, 4
q, k = torch.randn(2, waves, prime)
relative_part = sum(q[w] @ roll(k[w], (w + 1) * delta) for w in range(waves))
orders = [(w + 1) * torch.arange(prime) % prime for w in range(waves)]
rings = sum(q[w, o] @ roll(k[w, o], delta) for w, o in enumerate(orders))
agree(f"{prime} channels: {waves} waves and {waves} rings", relative_part, rings)

# %% [markdown]
# ## Larger logits, a larger model
#
# **The logits grow.** A sum of $W$ independent waves has $W$ times the variance, for queries and for keys. With
# independent entries of mean 0 and variance 1,
#
# $$
# \operatorname{Var}\!\left[ \frac{\mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k)}{\sqrt n} \right] = W^2
# $$ (eq-multiplexed-variance)
#
# Eq. 12 of the paper has no factor that would undo this, and the paper does not mention one. The library follows the
# printed form by default and offers the factor $1/\sqrt W$ as `scale="sqrt"`. These are the logits in the first block
# of an untrained ViT-S, for images of noise, from the function that filled the table:


# %%
plain = first_logits("roll")
print(f"roll                       logits ± {plain:.3f}")
for W in range(2, waves + 2):
    for scale in ("none", "sqrt"):
        logits = first_logits("multiplexed-roll", waves=W, scale=scale)
        ratio = logits / plain
        label = f"{W} waves, scale={scale!r}"
        print(f"{label:26} logits ± {logits:.3f} = {ratio:.2f} × plain")
        assert abs(ratio / (W if scale == "none" else 1) - 1) < 0.15

# %% [markdown]
# Logits that are $W$ times as large act like a softmax at a temperature $W$ times as low. That alone can change an
# accuracy.
#
# **The model grows.** In $L$ blocks of width $D$, every wave beyond the first adds two projections with their biases:
#
# $$
# \Delta_{\text{parameters}} = 2 L (W - 1) (D^2 + D)
# $$ (eq-multiplexed-parameters)


# %%
plain_size = count_parameters("roll")
print(f"roll     {plain_size:12,}")
for W in (2, 3, 4):
    size = count_parameters("multiplexed-roll", waves=W)
    assert size - plain_size == multiplexed_parameters(384, 12, W)
    print(f"{W} waves  {size:12,}   {size / plain_size - 1:+.1%}")

# %% [markdown]
# In the paper's table, on CIFAR-100 {cite}`krizhevsky2009learning`, multiplexed RollPE reaches 73.4 and RollPE 72.1
# {cite}`rollpe`.{holds}`printed: multiplexed-roll > roll` But RollPE has fewer parameters there and, if Eq. 12 was run
# as printed, smaller logits at the start. Each of these could explain the difference as well as relativity.
#
# ## A fair control
#
# To change only the speeds, keep all $W$ projections and let them travel at the *same* speed:
#
# $$
# \begin{aligned} & \sum_{w} \mathrm{Roll}_{p}\bigl( W_Q^{(w)} x \bigr) \\
# & \quad = \mathrm{Roll}_{p}\Bigl( \bigl( \textstyle\sum_{w} W_Q^{(w)} \bigr) x \Bigr) \end{aligned}
# $$ (eq-multiplexed-control)
#
# This control has as many parameters and projections as multiplexed RollPE, and its logits start out equally large. But
# it is strictly relative, because it is RollPE with the sum of the projections. In this library it is an option:
# `speeds=(1, 1)`.

# %%
size = {"head_dim": 2 * n, "heads": 1}
positions = grid_positions(4, 5)
q, k = torch.randn(2, 1, 1, len(positions), waves * 2 * n)
shift = torch.tensor([2.0, 3.0])
for speeds in (tuple(range(1, waves + 1)), (1,) * waves):
    options = {"waves": waves, "speeds": speeds}
    encoding = create_encoding("multiplexed-roll", **options, **size)
    scores = encoding.scores(q, k, positions)
    moved = encoding.scores(q, k, positions + shift)
    change = gap(moved, scores)
    spread = scores.std().item()
    print(f"speeds {speeds}: logits ± {spread:.2f}, a shift changes {change:.1e}")
    assert encoding.relative == (change < 1e-11)
summed = [x.unflatten(-1, (waves, 2 * n)).sum(-2) for x in (q, k)]
plain_scores = create_encoding("roll", **size).scores(*summed, positions)
agree("the control is RollPE of the sum", scores, plain_scores)

# %% [markdown]
# So there are three models to compare:
#
# - From RollPE to the control, parameters and the scale of the logits change, and no function is added.
# - From the control to multiplexed RollPE, only the speeds change.
#
# One more thing is not equal: the projections of the control have equal gradients, so that an optimizer like Adam moves
# their sum $W$ times as far ({ref}`exercise-multiplexed-speed`).
#
# On handwritten digits, the test accuracy of RollPE is {num}`quick/roll accuracy`, of the control
# {num}`quick/multiplexed-roll@speeds=[1,1] accuracy`, and of multiplexed RollPE
# {num}`quick/multiplexed-roll accuracy`. After the correction for all comparisons on digits, the difference of the last
# two is open ({doc}`09-results`).{holds}`quick: multiplexed-roll - multiplexed-roll@speeds=[1,1] is open` The control
# also took the larger steps. So different speeds are not shown to help.
#
# On photographs, after ten passes over CIFAR-100, multiplexed RollPE reaches {num}`mini/multiplexed-roll accuracy` with
# {num}`mini/multiplexed-roll seeds` seeds, and RollPE {num}`mini/roll accuracy` with {num}`mini/roll seeds`. The mean of
# multiplexed RollPE is lower, although it has more weights, but the difference is open
# ({doc}`09-results`).{holds}`mini: multiplexed-roll < roll; multiplexed-roll - roll is open` The control with equal speeds
# reaches {num}`mini/multiplexed-roll@speeds=[1,1] accuracy`, so relativity does not make up for the
# deficit.{holds}`mini: multiplexed-roll@speeds=[1,1] < multiplexed-roll; multiplexed-roll@speeds=[1,1] - multiplexed-roll is open`
# A second control keeps the speeds and divides the logits by $W$ as well (`scale="sqrt"`). It reaches
# {num}`mini/multiplexed-roll@scale=sqrt accuracy`: every run is above every run of RollPE with two waves as in the paper.
# The scale of the logits explains the deficit better than the cross
# terms.{holds}`mini: every run of multiplexed-roll@scale=sqrt > every run of multiplexed-roll; multiplexed-roll@scale=sqrt > roll`
# After the correction for all comparisons on photographs this difference is open as
# well.{holds}`mini: multiplexed-roll@scale=sqrt - multiplexed-roll is open`
#
# Even if different speeds helped, the reason need not be relativity. Different speeds bring the cross terms, and they
# also make the relative part as rich as that of $W$ rings, if no speed shares a factor with $n$ (wave 2 of an even ring
# repeats after $n/2$). One more control would separate the two: concatenate the waves instead of adding them. This is
# relative and has no cross terms. It needs heads whose queries and keys are wider than their values, which this library
# does not have.
#
# ```{admonition} In short
# :class: tip
# A multiplexed score is the sum of a relative part, in which each wave meets itself, and of cross terms that depend on
# absolute positions. The paper is right that relativity is lost. Different speeds bring no new frequencies. The extra
# projections also enlarge the model and multiply the logits by $W$, so the printed comparison says little about
# relativity. A fair comparison is with waves of equal speed. It is open, on digits and on
# photographs.{holds}`quick: multiplexed-roll - multiplexed-roll@speeds=[1,1] is open`{holds}`mini: multiplexed-roll@speeds=[1,1] - multiplexed-roll is open`
# On photographs, two waves reach RollPE's accuracy once their logits are divided by
# $W$.{holds}`mini: multiplexed-roll@scale=sqrt > roll; multiplexed-roll < roll`
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-multiplexed-halfway
# Take two waves on a ring of odd length. Find a query and a key, the same at every position, such that each token
# attends only to the token halfway between itself and the origin. Can RollPE do that?
# ```
#
# ```{solution} exercise-multiplexed-halfway
# :class: dropdown
# Use a cross term alone: $q^{(1)} = e_0$, $k^{(2)} = e_0$, the other two zero. The score is one where
# $2 p_k \equiv p_q$ modulo $n$, and zero elsewhere. (An odd $p_q$ has a half on the ring, too: $(p_q + n)/2$.)
# RollPE cannot do it, because the offset to the halfway token is different for every query.
# ```

# %% tags=["hide-cell"]
odd = n + 1 - n % 2
q, k = torch.zeros(2, 2, odd)
q[0, 0] = k[1, 0] = 1
p = torch.arange(odd)
q, k = (multiplexed_roll(x.expand(odd, -1, -1), p) for x in (q, k))
score = q @ k.T
halfway = (2 * p % odd == p[:, None]).double()
agree("every token attends to one, halfway", score, halfway)
even = torch.arange(0, odd, 2)
assert torch.equal(score[even].argmax(-1), even // 2)

# %% [markdown]
# ```{exercise}
# :label: exercise-multiplexed-disjoint
# Must a model silence all waves but one to be relative? Find two waves, neither of them zero, whose cross terms vanish.
# ```
#
# ```{solution} exercise-multiplexed-disjoint
# :class: dropdown
# A cross term correlates $q^{(1)}$ with $k^{(2)}$, or the reverse. By Parseval it vanishes if no Fourier mode
# is present in both. Give the low modes to wave 1 and the high ones to wave 2, in queries and in keys. The
# score is then relative, and the model has one ring whose high modes turn twice as fast.
# ```

# %% tags=["hide-cell"]
modes = torch.arange(n // 2 + 1)
q, k = torch.randn(2, 2, n)
low = modes < n // 4
spectra = (torch.fft.rfft(x) * torch.stack((low, ~low)) for x in (q, k))
q, k = (torch.fft.irfft(x, n) for x in spectra)
p = torch.arange(tokens)


def score_at(p):
    same_q, same_k = (x.expand(tokens, -1, -1) for x in (q, k))
    return multiplexed_roll(same_q, p) @ multiplexed_roll(same_k, p).T


agree("disjoint spectra are relative", score_at(p + 3), score_at(p))
assert not torch.allclose(score_at(p)[0, 1], score_at(p)[0, 2])

# %% [markdown]
# ```{exercise}
# :label: exercise-multiplexed-speed
# The control expresses the same functions as RollPE. Does it train alike? Take one step of Adam, with the same
# learning rate, on a summed projection and on a plain one.
# ```
#
# ```{solution} exercise-multiplexed-speed
# :class: dropdown
# No. All $W$ projections receive the same gradient, so each takes the step that the plain one would take, and
# their sum moves $W$ times as far. Part of what the control gains or loses over RollPE may be its learning
# rate.
# ```

# %% tags=["hide-cell"]
x, target = torch.randn(8, 5), torch.randn(8, 5)
start = torch.randn(5, 5)
moves = []
for copies in (1, waves):
    projections = [torch.nn.Parameter(start / copies) for _ in range(copies)]
    optimizer = torch.optim.Adam(projections, lr=1e-3)
    (x @ sum(projections) - target).square().mean().backward()
    optimizer.step()
    moves.append((sum(projections) - start).detach())
agree("the sum moves W times as far", moves[1], waves * moves[0])
