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
# The best number in the paper's table does not belong to RollPE. It belongs to a variant in which every query
# and key is a sum of waves that travel at different speeds {cite}`rollpe`, as the brain has been found to carry several
# events at a time in one stream of waves {cite}`king2021human`. The paper says of it three things:
# it does better, it needs more parameters, and it breaks relativity. So perhaps, it goes on, relativity does
# not matter. Before we believe that, we want to know what exactly breaks, what else changed along with it, and
# with what a fair experiment would compare.

# %% tags=["parameters"]
n: int = 32  # channels on the ring [4..128]
waves: int = 2  # waves in each query and key [2..4]
tokens: int = 24  # tokens in a row [4..64]
seed: int = 0  # seed of the random vectors [0..]

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch

from rollpe import figures
from rollpe.agree import agree, gap
from rollpe.encodings import create_encoding, grid_positions
from rollpe.operators import multiplexed_roll, roll, shift_matrix, wave_period
from rollpe.textbook import multiplexed_parameters
from rollpe.vit import create_vit

figures.use_theme()
torch.manual_seed(seed)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## The sum
#
# In place of one projection, a token $x$ gets $W$ of them:
#
# $$
# q^{(w)} = W_Q^{(w)} x, \qquad w = 1, \dots, W
# $$ (eq-waves)
#
# Wave $w$ rolls $w$ channels for every step of the token, and all waves are added on the same ring:
#
# $$
# \mathrm{MPRoll}_p(q) = \sum_{w=1}^{W} \mathrm{Roll}_{wp}\bigl( q^{(w)} \bigr)
# $$ (eq-multiplexed)
#
# Keys are treated alike. A case to do by hand, with four channels and two waves: let the first wave be a one at
# channel 0, the second a one at channel 1. Each step moves the first by one place, the second by two.

# %%
first, second = torch.eye(4, dtype=torch.int64)[:2]
for p in range(4):
    total = multiplexed_roll(torch.stack((first, second)), p)
    alone = [roll(first, p).tolist(), roll(second, 2 * p).tolist()]
    print(f"p = {p}:  {alone[0]} + {alone[1]} = {total.tolist()}"
          f"   squared length {total.square().sum()}")  # fmt: skip

# %% [markdown]
# At $p = 1$ the fast wave has caught up with the slow one, and they add up. Waves that meet interfere. So the
# length of the sum depends on where the token stands, and a rolled query is no longer a rotated query.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-multiplexed-waves", "caption": "One query at every position. Each wave alone keeps its shape and its speed; their sum does neither."}, "image": {"alt": "Heat maps side by side with channels across and positions downward. In the first, one bright stripe drifts slowly to the left as the position grows. In the next, the stripe drifts twice as fast. In the last, both stripes are drawn over each other, and where they cross a brighter spot appears."}}
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
# In {numref}`fig-multiplexed-waves` look at the crossings. They are places in the image, not relations between
# tokens: a token that stands there has a longer query than its neighbors.
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
# The $W$ terms in which a wave meets itself know the offset only. The $W(W-1)$ cross terms know, besides,
# where the query stands. Move both tokens by $s$, and it is these that change:
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
        term = f"wave {w + 1} · wave {v + 1} changes by up to {change:4.1f}"
        agree(term, moved[w, v], expected)
        assert (change < 1e-11) == ((v - w) * s % n == 0)

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-multiplexed-terms", "caption": "One score, taken apart into wave of the query · wave of the key, for the same content at every position. Along a dotted line the offset is constant."}, "image": {"alt": "Square heat maps of query position against key position. Where a wave meets itself, bright stripes run parallel to the dotted diagonals, more of them for the faster wave. In the cross terms the stripes are steeper or flatter than the diagonals. The large panel with the sum shows all stripes crossing each other in a woven pattern."}}
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
# {numref}`fig-multiplexed-terms` takes the score apart. On the diagonal of the small panels the stripes follow
# the dotted lines: relative. Off it they do not. There the score is constant where $w' p_k - w p_q$ is, which
# favors a place in the image over an offset.
#
# How much of the score is that? If the projections are independent, all $W^2$ terms are equally strong, and $W$
# of them are relative. With two waves half of the variance is relative, with three a third. A trained model can
# do as it likes, of course. It can silence all waves but one and is back at RollPE.
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
# With two waves $w' - w = \pm 1$, and this always applies. Multiplexing then adds to a relative encoding an
# absolute one that favors no offset once all places on the ring are averaged. A row of patches covers
# only part of the ring, so in an image a remainder survives.

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
# A faster wave comes round sooner, one would think. It does so only if its speed shares a factor with $n$:
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
# A vision transformer with heads of 64 channels gives 32 to each axis. There the fourth wave has a period of
# eight, and on eight patches in a row it takes one step to the left for seven steps to the right. On a ring
# whose length is a prime, every wave has the full period.
#
# More is true on such a ring. The speed of a single wave means nothing:
#
# $$
# \begin{gathered} S^{w} = P^\top S \, P, \qquad (P x)_i = x_{w i \bmod n}, \\
# \gcd(w, n) = 1 \end{gathered}
# $$ (eq-wave-relabel)
#
# Take every $w$-th channel instead of every channel, and the wave of speed $w$ is the wave of speed 1.
# Projections can learn either order. So several speeds do not bring new frequencies, as one might hope: modulo
# $2\pi$, the multiples of $2\pi/n$ are merely dealt out again. The relative part of {eq}`eq-multiplexed-split`
# is then what plain RollPE computes in a head with $W$ rings side by side. Only the cross terms go beyond that.

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
# ## Two things that changed along with it
#
# **The logits grow.** A sum of $W$ independent waves has $W$ times the variance, for queries and for keys. With
# independent entries of mean 0 and variance 1,
#
# $$
# \operatorname{Var}\!\left[ \frac{\mathrm{MPRoll}_{p_q}(q)^\top \mathrm{MPRoll}_{p_k}(k)}{\sqrt n} \right] = W^2
# $$ (eq-multiplexed-variance)
#
# Eq. 12 of the paper has no factor that would undo this, and the paper does not mention one. We keep the
# printed form as the default and offer the factor $1/\sqrt W$ as `scale="sqrt"`. Here are the logits in the
# first layer of a ViT-S at its initialization, for an image of noise.


# %%
def first_logits(encoding: str, **options) -> float:
    """Spread of the logits in the first layer of an untrained ViT-S."""
    torch.manual_seed(seed)
    model = create_vit(encoding, depth=1, encoding_options=options).float()
    with torch.no_grad():
        x, positions = model.embed(torch.randn(2, 3, 32, 32).float())
        attention = model.blocks[0].attn
        wide = attention.encoding.streams * attention.attn_dim
        qkv = attention.qkv(model.blocks[0].norm1(x))
        q, k = (
            part.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
            for part in qkv[..., : 2 * wide].chunk(2, dim=-1)
        )
        q, k = attention.encoding(q, k, positions)
    return (q @ k.mT / attention.head_dim**0.5).std().item()


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
# Logits that are $W$ times as large act like a softmax at a temperature $W$ times as low. That alone can change
# an accuracy.
#
# **The model grows.** In $L$ blocks of width $D$, every wave beyond the first costs two more projections with
# their biases:
#
# $$
# \Delta_{\text{parameters}} = 2 L (W - 1) (D^2 + D)
# $$ (eq-multiplexed-parameters)


# %%
def count_parameters(encoding: str, **options) -> int:
    """Trained numbers of a ViT-S, counted in the model itself."""
    with torch.device("meta"):
        model = create_vit(encoding, encoding_options=options)
    return sum(parameter.numel() for parameter in model.parameters())


plain_size = count_parameters("roll")
print(f"roll     {plain_size:12,}")
for W in (2, 3, 4):
    size = count_parameters("multiplexed-roll", waves=W)
    assert size - plain_size == multiplexed_parameters(384, 12, W)
    print(f"{W} waves  {size:12,}   {size / plain_size - 1:+.1%}")

# %% [markdown]
# The 73.4 of the paper's table, for CIFAR-100 {cite}`krizhevsky2009learning`, stands against the 72.1 of a model with
# fewer parameters and, if Eq. 12 was run as printed, smaller logits at the start {cite}`rollpe`. The difference
# cannot tell relativity from either.
#
# ## A fair opponent
#
# There is a control that turns one knob only. Keep all $W$ projections and let them travel at the *same* speed:
#
# $$
# \begin{aligned} & \sum_{w} \mathrm{Roll}_{p}\bigl( W_Q^{(w)} x \bigr) \\
# & \quad = \mathrm{Roll}_{p}\Bigl( \bigl( \textstyle\sum_{w} W_Q^{(w)} \bigr) x \Bigr) \end{aligned}
# $$ (eq-multiplexed-control)
#
# It has as many parameters, its logits start out equally large, and it computes as many projections. But it is strictly
# relative, because it is plain RollPE with the sum of the projections. In this library it is an option:
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
    print(f"speeds {speeds}: logits ± {spread:.2f}, shifted {change:.1e} off")
    assert encoding.relative == (change < 1e-11)
summed = [x.unflatten(-1, (waves, 2 * n)).sum(-2) for x in (q, k)]
plain_scores = create_encoding("roll", **size).scores(*summed, positions)
agree("the control is RollPE of the sum", scores, plain_scores)

# %% [markdown]
# So the ladder has three rungs: RollPE, the control, the multiplexed roll. From the first to the second,
# parameters and the scale of the logits change, and not one function is added. From the second to the third,
# parameters and scale stay, and the speeds change. One thing more is not equal: the projections of the control have
# equal gradients, so that an optimizer like Adam moves their sum $W$ times as far ({ref}`exercise-multiplexed-speed`).
#
# On handwritten digits the rungs read {num}`quick/roll accuracy`,
# {num}`quick/multiplexed-roll@speeds=%5B1%2C1%5D accuracy` and {num}`quick/multiplexed-roll accuracy`. The difference
# of the last two does not survive a correction for all that was compared on digits ({doc}`13-ablations`), and the
# control also took the larger steps. Different speeds are not shown to help.
#
# On photographs, after ten passes over CIFAR-100, the multiplexed roll reads {num}`mini/multiplexed-roll accuracy` in
# {num}`mini/multiplexed-roll seeds` runs, and RollPE {num}`mini/roll accuracy` in {num}`mini/roll seeds`. The mean of
# the multiplexed roll is behind, for all its weights; whether that is chance these runs do not settle
# ({doc}`12-results`). The control has not been run there.
#
# Had the speeds helped, relativity would still not be the only suspect. Different speeds bring the cross terms, and
# they also make the relative part as rich as that of $W$ rings, if no speed shares a factor with $n$ (wave 2 of an
# even ring repeats after $n/2$). One more rung would separate these two: keep the rings apart, that is, concatenate
# the waves instead of adding them. This is relative and has no cross terms. It needs heads whose queries and keys are
# wider than their values, which this library does not have.
#
# ```{admonition} In short
# :class: tip
# A multiplexed score is the sum of a relative part, in which each wave meets itself, and of cross terms that
# see absolute positions. The paper is right that relativity is lost. Different speeds bring no new frequencies.
# The extra projections also enlarge the model and multiply the logits by $W$, so the printed comparison says
# little about relativity. Waves of equal speed are the opponent to beat, and no run here has clearly beaten them.
# ```
#
# ## Exercises
#
# ```{exercise}
# :label: exercise-multiplexed-halfway
# Take two waves on a ring of odd length. Find a query and a key, the same at every position, for which each
# token looks only at the token halfway between itself and the origin. Can plain RollPE do that?
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
agree("every token sees one other, halfway", score, halfway)
even = torch.arange(0, odd, 2)
assert torch.equal(score[even].argmax(-1), even // 2)

# %% [markdown]
# ```{exercise}
# :label: exercise-multiplexed-disjoint
# Must a model silence all waves but one to be relative? Find something that two waves can say without their
# cross terms hearing it.
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
# The control can express nothing that RollPE cannot. Does it train alike? Take one step of Adam, with the same
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
