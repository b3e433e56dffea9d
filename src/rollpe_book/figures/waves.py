"""The still pictures of the waves, and the values that their moving pictures start from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from rollpe.operators import (
    continuous_roll,
    multiplexed_roll,
    ring_frequencies,
    roll,
    twisted_frequencies,
)
from rollpe.textbook import rope_frequencies, rope_score, similarity_kernel
from rollpe.topography import near_and_any, unpack_correlations
from rollpe_book import figures
from rollpe_book.figures import photo, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TYPES = ("svg", "pdf")
"""Types of the files: every builder takes one of them."""


def bump(n: int, center: float, sharpness: float) -> Tensor:
    """A smooth bump around one channel of a ring, e^{κ(cos(2π(i−c)/n) − 1)}, float64 [n]."""
    angle = 2 * math.pi / n * (torch.arange(n, dtype=torch.float64) - center)
    return torch.exp(sharpness * (torch.cos(angle) - 1))


def random_angles() -> dict[str, list]:
    """16 angles in [0, π], ``random``, and three pairs of a query and a key, ``contents`` [3, 2, 32].

    Two decimals; the same numbers in every build.
    """
    rng = torch.Generator().manual_seed(0)
    angles = math.pi * torch.rand(16, generator=rng, dtype=torch.float64)
    contents = torch.randn(3, 2, 32, generator=rng, dtype=torch.float64)
    return {"random": angles.round(decimals=2).tolist(), "contents": contents.round(decimals=2).tolist()}


def angle_list(name: str, m: int) -> Tensor:
    """m angles in radians per position, float64 [m]: those of RoPE ("geometric"), of a "ring" of 2m − 1
    channels, of a "twisted" ring of 2m, or of two rings of m − 1 and m + 1 channels, m even ("residues").
    """
    return {
        "geometric": rope_frequencies(2 * m),
        "ring": ring_frequencies(2 * m - 1),
        "twisted": twisted_frequencies(2 * m),
        "residues": torch.cat((ring_frequencies(m - 1), ring_frequencies(m + 1)[1:])),  # one constant
    }[name]


def period(frequencies: Tensor) -> int:
    """The least Δ from 1 to 5000 at which all ω_iΔ are multiples of 2π, to 1e-6; 0 if there is none."""
    angles = torch.outer(torch.arange(1, 5001), frequencies)
    rest = torch.remainder(angles + math.pi, 2 * math.pi) - math.pi
    found = (rest.abs() < 1e-6).all(dim=1).nonzero()
    return int(found[0]) + 1 if len(found) else 0


def eigenvalue_count(frequencies: Tensor) -> int:
    """How many different numbers e^{±iω_i} there are, to 1e-6: (eq-span)."""
    values = torch.exp(1j * torch.cat((frequencies, -frequencies)))
    equal = (values[:, None] - values).abs() < 1e-6
    return int((~equal.triu(1).any(dim=0)).sum())


def walking_pair() -> tuple[Tensor, Tensor]:
    """The query and the key of the wave ``walk``, [12] each."""
    return bump(12, 0, 6) + 0.45 * bump(12, 7, 9), bump(12, 2, 3)


# Pieces of pictures


def ring_bars(ax: Axes, values: Tensor, color: str) -> None:
    """One bar for each channel around a ring of radius 1, clockwise from the top."""
    n = len(values)
    for i, value in enumerate(values.tolist()):
        direction = np.array([math.sin(2 * math.pi * i / n), math.cos(2 * math.pi * i / n)])
        ends = np.stack((direction, (1 + 0.6 * value) * direction))
        ax.plot(*ends.T, color=color, linewidth=min(9.0, 60 / n), solid_capstyle="butt")
    ax.add_patch(mpl.patches.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.8))
    ax.set_aspect("equal")
    ax.axis("off")


def stems(ax: Axes, values: Tensor, color: str, title: str) -> None:
    """One stem for each channel."""
    ax.vlines(range(len(values)), 0, values, color=color, linewidth=1.6)
    ax.plot(values, "o", color=color, markersize=3.5)
    ax.axhline(0, color=figures.MUTED, linewidth=0.6)
    ax.set_title(title, fontsize=9)
    ax.set(ylim=(-0.45, 1.1), xticks=[0, len(values) - 1])


# Still pictures


@dataclass(frozen=True)
class Wave:
    """What ``{wave} name`` puts on a page."""

    label: str
    """The still picture in words."""
    start: dict[str, Any]
    """The first values of the sliders."""
    draw: Callable[[Figure, dict[str, Any]], None]
    size: tuple[float, float]
    """Inches."""


WAVES: dict[str, Wave] = {}


def wave(height: float = 3.0, **start: Any) -> Callable:
    """Register ``draw_name`` as the still picture of the wave ``name``, with its first values.

    The docstring of the function is the picture in words, for readers who cannot see it.
    """

    def register(draw: Callable[[Figure, dict[str, Any]], None]) -> Callable:
        label = " ".join((draw.__doc__ or "").split())
        WAVES[draw.__name__.removeprefix("draw_")] = Wave(label, start, draw, (6.8, height))
        return draw

    return register


@wave(p=6, delta=2)
def draw_walk(figure: Figure, start: dict[str, Any]) -> None:
    """Two rings of bars, a query's and a key's, each turned by the position of its token. Between them a
    dotted curve of their score against the offset of the key, with one offset marked.
    """
    p, delta = start["p"], start["delta"]
    q, k = walking_pair()
    axes = figure.subplots(1, 3)
    for ax, x, at, color, name in (
        (axes[0], q, p, figures.BLUE, "query"),
        (axes[2], k, p + delta, figures.VERMILION, "key"),
    ):
        ring_bars(ax, roll(x, at), color)
        ax.set_title(f"{name} at position {at}", loc="center")
    offsets = torch.arange(-4, 5)
    score = roll(k, p + offsets) @ roll(q, p) / len(q) ** 0.5
    axes[1].plot(offsets, score, "o-", color=figures.MUTED, linewidth=1)
    axes[1].plot(delta, score[delta + 4], "o", color=figures.INK, markersize=9)
    axes[1].set(xlabel="offset Δ of the key", ylabel="score", ylim=(0, None), xticks=[-4, 0, 4])


@wave(n=9, p=2)
def draw_ring(figure: Figure, start: dict[str, Any]) -> None:
    """Left: bars around a ring, a bump turned a few channels against the clock. Right: clock faces, one for
    each Fourier mode; hand k has turned k times as far as the ring.
    """
    n, p = start["n"], start["p"]
    q = bump(n, 0, 4)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.3])
    ring_bars(left, roll(q, p), figures.BLUE)
    left.set_title(f"the ring, position {p}", loc="center")
    right.set_title("its Fourier modes, one hand each", loc="center")
    sizes = torch.fft.rfft(q).abs()
    for k, omega in enumerate(ring_frequencies(n).tolist()):
        x, y = 2.6 * (k % 3), -3.4 * (k // 3)
        turn = omega * p
        right.add_patch(mpl.patches.Circle((x, y), 1, fill=False, color=figures.MUTED, linewidth=0.8))
        for length, width in ((1, 0.8), (float(sizes[k] / sizes[0]), 3)):
            tip = [x, x - length * math.sin(turn)], [y, y + length * math.cos(turn)]
            right.plot(*tip, color=figures.BLUE, linewidth=width, solid_capstyle="round")
        right.text(x, y - 1.6, f"k = {k}", ha="center", fontsize=9)
    right.set_aspect("equal")
    right.axis("off")


@wave(3.6, n=9, p=0.5, nyquist="fixed")
def draw_continuous(figure: Figure, start: dict[str, Any]) -> None:
    """A pulse on rings of an odd and an even number of channels, moved by half a channel and by one. The odd
    ring ripples and returns to a pulse; each treatment of the even ring shows its own remainder.
    """
    odd, even = start["n"], start["n"] + 1
    axes = figure.subplots(2, 4, sharey=True)
    cases = [(odd, "fixed"), (even, "fixed"), (even, "cosine"), (even, "paired")]
    for row, p in enumerate((0.5, 1.0)):
        for ax, (n, nyquist) in zip(axes[row], cases, strict=True):
            x = torch.zeros(2 * n if nyquist == "paired" else n, dtype=torch.float64)
            x[n // 2] = 1
            moved = continuous_roll(x, p, nyquist=nyquist)
            color = figures.BLUE if n == odd else figures.VERMILION
            stems(ax, moved[:n], color, f"n = {n}" + ("" if n == odd else f", {nyquist}"))
            if nyquist == "paired" and row == 0:
                ax.plot(moved[n:], "x", color=figures.MUTED, markersize=4)
                ax.text(n - 1, 0.85, "× second ring", color=figures.MUTED, fontsize=8, ha="right")
        axes[row, 0].set_ylabel(f"p = {p:g}")


@wave(n=16, W=2, p=3)
def draw_speeds(figure: Figure, start: dict[str, Any]) -> None:
    """Maps with channels across and positions downward. Each wave is a slanted stripe, steeper for slow
    waves; in the map of their sum the stripes cross.
    """
    n, waves, positions = start["n"], start["W"], torch.arange(17)
    shapes = bump(n, 0, 7).expand(waves, -1)
    axes = figure.subplots(1, waves + 1, sharey=True)
    alone = [roll(shapes[w], (w + 1) * positions) for w in range(waves)]
    together = multiplexed_roll(shapes, positions)
    titles = [f"wave {w + 1}" for w in range(waves)] + ["their sum"]
    for ax, values, title in zip(axes, [*alone, together], titles, strict=True):
        ax.imshow(values, vmin=0, vmax=waves, aspect="auto")
        ax.set(title=title, xlabel="channel", xticks=[0, n - 1])
    axes[0].set(ylabel="position p", yticks=[0, 8, 16])


@wave(4.2, **random_angles(), list="ring", own=[], m=8, wavelength=1, G=16, i=2)
def draw_circle(figure: Figure, start: dict[str, Any]) -> None:
    """Two rows, one a list of angles. Left: the angles as points on the unit circle, joined to their mirror
    images. Those of the ring are evenly spaced; most of the geometric list crowd at angle 0. Right: the
    kernel against the offset, from 0 to 128. That of the ring has a peak at every 15th offset; the geometric
    one falls from 1 and stays irregular. Thin gray lines, scores of random queries and keys, are as large at
    large offsets as at small ones.
    """
    m, offsets = start["m"], torch.arange(129)
    contents = torch.tensor(start["contents"], dtype=torch.float64)[..., : 2 * m]
    rows = figure.subplots(2, 2, width_ratios=(1, 2.4))
    for (circle, chart), name in zip(rows, ("ring", "geometric"), strict=True):
        omega = angle_list(name, m)
        x, y = omega.cos(), omega.sin()
        circle.add_patch(mpl.patches.Circle((0, 0), 1, fill=False, color=figures.MUTED, linewidth=0.8))
        circle.vlines(x, -y, y, color=figures.MUTED, linewidth=0.5)
        circle.plot(x, -y, "o", color=figures.VERMILION, markersize=4, markerfacecolor="none")
        circle.plot(x, y, "o", color=figures.VERMILION, markersize=4)
        circle.set_aspect("equal")
        circle.axis("off")
        circle.set_title(f"{name}, {m} angles", loc="center")
        for q, k in contents:
            scores = torch.stack([rope_score(q, k, delta, omega) for delta in offsets.tolist()])
            chart.plot(offsets, scores / (q.norm() * k.norm()), color=figures.MUTED, linewidth=0.5)
        chart.plot(offsets, similarity_kernel(offsets, omega), color=figures.VERMILION)
        says = f"repeats after {period(omega)}" if period(omega) else "does not repeat within 5000"
        chart.set_title(f"{says}; {eigenvalue_count(omega)} functions of the offset", fontsize=9)
        chart.set(ylim=(-1, 1.05), xticks=[0, 64, 128], ylabel="kernel")
    chart.set_xlabel("offset Δ")


@wave(6.8, moved=0, view="row", content="kernel", trained="64", base="10000", width="32")
def draw_picture(figure: Figure, start: dict[str, Any]) -> None:
    """Small charts, one an encoding: attention of one token, against the offset of the key, from 124 places
    before it to 124 after it, when all keys are like the query. RoPE has a peak at zero and lower, irregular
    ones. Rings of 32 channels repeat the peak every 32 places; on the twisted ring every other one is a dip.
    ALiBi falls to both sides. No encoding is flat.
    """
    options = {key: int(start[key]) for key in picture.SETTINGS["row"]}
    names, trained = picture.shown("row"), options["trained"]
    reach = picture.VIEWS["row"][1]
    content = picture.CONTENTS.index(start["content"])
    panels = figure.subplots(4, 4, sharex=True, sharey=True).flat
    with warnings.catch_warnings(action="ignore"):
        for ax, name in zip(panels, names, strict=True):
            takes = {key: options[key] for key in picture.settings_of(name, "row")}
            values = picture.log_weights(name, "row", start["moved"], **{"trained": trained} | takes)[content]
            ax.axvspan(-trained / 2, trained / 2 - 1, color=figures.MUTED, alpha=0.15, linewidth=0)
            ax.axhline(0, color=figures.MUTED, linewidth=0.6)
            ax.plot(range(-reach, reach + 1), values, color=figures.VERMILION, linewidth=0.9)
            ax.set_title(name, fontsize=9)
            ax.set(ylim=(-picture.LIMIT, picture.LIMIT), xticks=[-reach, 0, reach], yticks=[0])
    figure.supxlabel("offset Δ of the key (gray: places that the encoding is built for)", fontsize=9)
    figure.supylabel("logarithm of the weight, 0 where all are equal", fontsize=9)


@wave(5.2, t=11, run="photographs", layer="all", head="all")
def draw_grow(figure: Figure, start: dict[str, Any]) -> None:
    """Two rows of square matrices of correlations of channels at moments of training. RollPE's begins with a
    thin red diagonal in noise, and a broad red band grows along it; the twin's hardly changes. Under them the
    correlation of neighbors over training: RollPE's rises early and stays high, the twin's stays low.
    """
    runs = start["runs"][start["run"]]
    moments = (0, 1, 2, 4, len(runs["roll"]["steps"]) - 1)
    figure.set_layout_engine("none")  # the last digits of a computed layout differ from build to build
    upper = figure.add_gridspec(2, len(moments), left=0.06, right=0.86, bottom=0.4, top=0.94, hspace=0.05)
    panels = upper.subplots(squeeze=False)
    ax = figure.add_axes((0.1, 0.1, 0.7, 0.2))
    ends = {}
    for row, (name, label) in zip(panels, (("roll", "RollPE"), ("roll-twin", "its twin")), strict=True):
        run = runs[name]
        packed = torch.tensor(run["maps"], dtype=torch.float64).mean((1, 2)) / start["rings"]
        r = unpack_correlations(packed)  # [moments, n, n]
        for panel, t in zip(row, moments, strict=True):
            image = panel.imshow(r[t], cmap=figures.DIVERGING, vmin=-1, vmax=1)
            if name == "roll":
                panel.set_title(f"step {run['steps'][t]}", fontsize=9)
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(label)
        near, any_two = near_and_any(r)
        epochs = np.array(run["steps"]) / run["epoch"]
        color = figures.color_of(name)
        ax.plot(epochs, near, ".-", color=color, label=f"{label}, neighbors")
        ax.plot(epochs, any_two, ":", color=color, linewidth=1, label=f"{label}, any two")
        ends[label] = np.array([epochs[-1], near[-1].item()])
    figure.colorbar(
        image, cax=figure.add_axes((0.88, 0.4, 0.02, 0.54)), ticks=[-1, 0, 1], label="correlation"
    )
    ax.set(xlabel="epoch", ylabel="correlation")
    ax.set_title("of neighbors; dotted: of any two channels", fontsize=9)
    figures.label_line_ends(ax, ends)


@wave(2.9, sy=0, sx=0, patch=8)
def draw_photo(figure: Figure, start: dict[str, Any]) -> None:
    """Two rows of pictures. Each begins with a photograph of a pagoda, in the second row moved by a few
    patches. Beside it are maps of the scores of one patch with all others, one for each encoding. With no
    encoding, RoPE and RollPE the map has moved with the photograph. With a learned table and with multiplexed
    RollPE it has changed.
    """
    patches, models = photo.read_photo(start["root"] / "data/photo")
    rows = figure.subplots(2, 1 + len(models), squeeze=False)
    number = start["patch"] - 1
    query = np.array(divmod(number, photo.QUERIES)) + photo.MOVE
    made = {name: photo.maps(name, model, patches) for name, model in models.items()}
    for row, shift in zip(rows, ((0, 0), (1, -2)), strict=True):
        seen = patches[photo.in_window(shift)].unflatten(0, (photo.WINDOW, photo.WINDOW))
        image = seen.unflatten(2, (3, photo.PATCH, photo.PATCH)).permute(0, 3, 1, 4, 2)
        row[0].imshow(image.flatten(2, 3).flatten(0, 1), extent=(-0.5, 7.5, 7.5, -0.5))
        down, right = shift
        row[0].set_ylabel(f"moved {down} down,\n{-right} left" if any(shift) else "unmoved")
        for ax, (name, maps) in zip(row[1:], made.items(), strict=True):
            limit = max(float(moved[number].abs().max()) for moved in maps.values())
            ax.imshow(maps[shift][number], cmap=figures.DIVERGING, vmin=-limit, vmax=limit)
            ax.set_title("" if any(shift) else photo.NAMES[name].replace(" ", "\n"), fontsize=8)
            if any(shift):
                change = photo.change(maps[0, 0], maps[shift], shift)[number]
                ax.set_xlabel(f"change {change:.2f}", fontsize=8)
        for ax in row:
            ax.plot(*(query + shift)[::-1], "s", color=figures.ON_PALE, markersize=6, markerfacecolor="none")
            ax.set(xticks=[], yticks=[])


def draw_still(name: str, folder: Path, more: Mapping[str, Any] | None = None) -> Path:
    """Draw a wave into ``folder``, in every type, and a CSV of its numbers; returns the path ``….*``.

    more: what its first values do not hold, such as numbers of records; the project's folder as ``root``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wave = WAVES[name]
    with mpl.rc_context():
        figures.use_theme()
        figure = Figure(figsize=wave.size, layout="constrained")
        wave.draw(figure, wave.start | dict(more or {}))
        for kind in TYPES:
            date = "Date" if kind == "svg" else "CreationDate"
            figure.savefig(folder / f"wave-{name}.{kind}", metadata={date: None})
    return folder / f"wave-{name}.*"
