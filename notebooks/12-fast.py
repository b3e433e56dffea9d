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
#   rollpe:
#     reads: [data/benchmarks]
# ---

# %% [markdown]
# # What an encoding costs
#
# How much longer does a training step take with positions than without? RoPE (`axial-rope`), RollPE (`roll`) and its
# rotary twin (`roll-twin`) add at most one percent. Multiplexed RollPE (`multiplexed-roll`), learned rotations (`lie`)
# and Shaw's vectors for keys and values (`shaw-kv`) take at least a sixth longer. This was measured on a CPU; no GPU
# has been benchmarked.

# %% tags=["parameters"]
folder: str = "data/benchmarks"  # folder of benchmarks
kinds: str = "cuda,cpu"  # devices, in this order {cuda|cpu,...}

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-cost", "caption": "Time of a training step with each encoding ÷ that without positions: the median over rounds of the quotient within a round (dot), and the quotient of counted operations (line)."}, "image": {"alt": "One row for each encoding with a dot at the quotient of step times and a short line at that of operations, most of them close to one; shaw-kv, lie and multiplexed-roll lie farthest to the right."}}
import json
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown

from rollpe_book import figures
from rollpe_book.chapters.parameters import begin
from rollpe_lab.bench import newest_by_device
from rollpe_lab.evidence.comparisons import markdown

begin(globals())
figures.use_theme()
newest = newest_by_device(folder)
benchmarks = {kind: newest[kind] for kind in kinds.split(",") if kind in newest}

order = list(
    dict.fromkeys(
        t.name
        for b in benchmarks.values()
        for t in sorted(b.encodings, key=lambda t: t.ratio)
    )
)
fig, axes = plt.subplots(
    1, len(benchmarks), figsize=(6.4, 4.6), sharey=True, squeeze=False
)
for ax, b in zip(axes[0], benchmarks.values(), strict=True):
    alone = next(t.gflop for t in b.encodings if t.name == "none")
    ax.axvline(1, color=figures.MUTED, linewidth=0.8)
    for t in b.encodings:
        y = order.index(t.name)
        ax.plot(
            t.gflop / alone,
            y,
            "|",
            color=figures.MUTED,
            markersize=9,
            label=f"{t.name}, operations",
        )
        ax.plot(t.ratio, y, "o", color=figures.color_of(t.name), label=t.name)
    ax.set(
        xscale="log",
        xlabel="step time ÷ without positions",
        title=b.environment.device_name,
    )
    ax.set_yticks(range(len(order)), order)
    low, high = (edge(t.ratio for t in b.encodings) for edge in (min, max))
    ticks = [
        x for x in (1, 1.1, 1.25, 1.5, 2, 3, 5, 8) if low * 0.95 <= x <= high * 1.05
    ]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
plt.close(fig)
fig

# %% [markdown]
# Each encoding acts inside the same step of the same model, and all take turns, so that whatever else the machine does
# falls on all alike. Most of the cost of multiplexed RollPE is a second projection of queries and keys.
#
# Apparent speed-ups over `none` are noise, and so is any gain of a step timed beside itself. The largest is our noise floor.


# %%
asked = ("learned", "axial-rope", "roll", "twisted-roll", "roll-twin")
asked += ("multiplexed-roll", "shaw-kv", "lie")
rows = [["encoding", *(b.environment.device_name for b in benchmarks.values())]]
ratios = [{t.name: t.ratio for t in b.encodings} for b in benchmarks.values()]
for name in asked:
    longer = [f"{100 * r[name] - 100:+.0f} %" if name in r else "–" for r in ratios]
    rows.append([f"`{name}`", *longer])
for b in benchmarks.values():
    floor = f"{100 * b.chance - 100:.1f} %"
    print(f"noise floor: {floor} ({b.rounds} rounds, batches of {b.batch})")
Markdown(markdown(rows))

# %% [markdown]
# ## The bill
#
# A training step is almost all matrix products, so its yardstick is the fastest matrix product on the same machine. The last
# number is the share of it that a step reaches, forward, backward and update. Torch counts the operations.

# %%
for kind in kinds.split(","):
    if kind not in benchmarks:
        print(f"{kind}: not measured; `rollpe bench --device {kind}` measures it.")
        continue
    b = benchmarks[kind]
    none = next(t for t in b.encodings if t.name == "none")
    speed, work = none.images_per_second, none.gflop / b.batch
    print(f"{b.environment.device_name}, {b.provenance.started[:10]}: ViT {b.size},")
    print(f"  {b.image_size} px, patches of {b.patch_size}, {b.precision}")
    print(f"  {speed:,.0f} images/s, {work:.2f} GFLOP each")
    print(f"  largest product: {b.peak_gflops:,.0f} GFLOP/s")
    print(f"  share of it in a step: {100 * none.share_of_peak:.0f} %")

# %% tags=["hide-input"]
# RoPE, RollPE and its twin add at most one percent, the twisted ring two.
measured = newest_by_device("data/benchmarks")
ratio = {t.name: t.ratio for t in measured["cpu"].encodings}
assert max(ratio[name] for name in ("axial-rope", "roll", "roll-twin")) < 1.01
assert ratio["twisted-roll"] < 1.02
# More channels, projecting twice and a matrix exponential add a sixth or more.
assert min(ratio[name] for name in ("multiplexed-roll", "lie", "shaw-kv")) > 1 + 1 / 6
# No GPU has been benchmarked.
assert "cuda" not in measured

# %% [markdown]
# ## Appendix: how it got fast
#
# Speed decides how many seeds there are. The trainer was therefore measured beside its rivals, in the same run and in turns.
#
# ### Beside timm
#
# timm's own modules were timed in the same rounds; above one, ours is faster. The row of `none` shows what
# comes from the last block, which computes only what is used, and on a CPU from attention in plain products.

# %%
rows = [["encoding", "ours (ms)", "timm's, same step (ms)", "timm ÷ ours"]]
for b in benchmarks.values():
    ours = {t.name: t.median for t in b.encodings}
    for t in b.timm:
        times = (f"{ours[t.name]:.1f}", f"{t.median:.1f}", f"{t.ratio:.3f}")
        rows.append([f"`{t.name}` on {b.environment.device_name}", *times])
    for name in b.failed:
        print(f"{b.environment.device_name}: {name} was not timed")
Markdown(markdown(rows))

# %% [markdown]
# ### More tokens
#
# Attention grows with the square of the number of tokens, everything else in proportion. At 64 patches it is a tenth of the
# operations in the smallest model. Rotations and rolls cost the same per token at any length; Shaw's vectors on a grid cost
# a token as many channels as the grid has rows and columns, {eq}`eq-shaw-grid`. The table was measured once, on the printed
# date; `rollpe bench` times the patches of the recipe alone.

# %%
reports = [json.loads(p.read_text()) for p in sorted(Path(folder).glob("*.json"))]
rows = [["µs an image", "64 patches", "256 patches", "1,024 patches"]]
for report in [r for r in reports if r.get("scaling")][-1:]:
    print(report["environment"]["device_name"], report["provenance"]["started"][:10])
    longer = {}
    for s in report["scaling"]:  # in the order of patches
        time = 1000 * s["median"] / s["batch"]
        longer.setdefault(f"`{s['encoding']}`", []).append(f"{time:,.0f}")
    rows += [[name, *times] for name, times in longer.items()]
Markdown(markdown(rows))
