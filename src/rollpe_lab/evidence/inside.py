"""What the arrays beside records say of the inside of trained models.

Measures of a run, for `rollpe_lab.evidence.words`: None for a record that is older than an array. And arrays
of all runs of an arm, for figures. Means are over queries and keys, layers, heads and axes unless they say
otherwise; rings have an even number of channels (`rollpe_lab.training.watch.observe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps

import numpy as np

from rollpe_lab.evidence import words
from rollpe_lab.evidence.words import Measure
from rollpe_lab.records.record import Record

Arrays = Mapping[str, np.ndarray]
PLACES = 8
"""Positions before and after a place in the text over which `jump` takes the mean."""


def measure(read: Callable[[Arrays], float]) -> Measure:
    """A function of the arrays of a run as a function of the run."""

    @wraps(read)
    def of_run(run: Record) -> float | None:
        try:
            return float(read(words.arrays_of(run)))
        except KeyError:  # an older record
            return None

    return of_run


def correlation_of(arrays: Arrays) -> tuple[float, float]:
    """Correlation of two channels that are neighbors on the ring, and of any two.

    In random order of the channels they would be equal (`rollpe.topography.correlation_by_distance`).
    """
    both = [arrays[f"{which}_correlation"] for which in ("query", "key")]
    by_distance = np.mean(both, axis=(0, 1, 2, 3))
    pairs = np.ones(len(by_distance))
    pairs[0], pairs[-1] = 0, 0.5  # no channel is paired with itself, and opposite ones only once
    return float(by_distance[1]), float(np.average(by_distance, weights=pairs))


neighbors = measure(lambda arrays: correlation_of(arrays)[0])
"""Correlation of two channels that are neighbors on the ring."""


lead_of_neighbors = measure(lambda arrays: np.subtract(*correlation_of(arrays)))
"""Correlation of neighbors on the ring minus that of any two channels."""


@measure
def neighbors_last_minus_first(arrays: Arrays) -> float:
    """Correlation of neighbors in the last layer minus that in the first."""
    both = [arrays[f"{which}_correlation"][..., 1].mean((1, 2)) for which in ("query", "key")]
    return float(np.subtract(*np.mean(both, axis=0)[[-1, 0]]))


@measure
def roughness(arrays: Arrays) -> float:
    """Roughness along the ring divided by that with the channels in random order.

    1 where the ring is no better than any other order (`rollpe.topography.shuffled_ratio`).
    """
    from rollpe.topography import shuffled_ratio  # noqa: PLC0415 (torch takes seconds)

    n = 2 * (arrays["query_spectrum"].shape[-1] - 1)
    own = np.mean([arrays[f"{which}_roughness"].mean() for which in ("query", "key")])
    level = np.mean([arrays[f"{which}_spectrum"][..., 0].mean() for which in ("query", "key")])
    return float(own / shuffled_ratio(level, n))


def order_of(arrays: Arrays) -> tuple[float, float]:
    """What kind of order the channels have at the last moment that a record keeps.

    How many directions their responses fill; by how much neighbors correlate more than any two channels once
    the first component is taken out (`rollpe.topography`: `participation_ratio`, `without_first_component`).
    """
    import torch  # noqa: PLC0415 (takes seconds)

    from rollpe import topography  # noqa: PLC0415

    r = topography.unpack_correlations(torch.from_numpy(arrays["frames"][-1]))
    near, any_two = topography.near_and_any(topography.without_first_component(r))
    return topography.participation_ratio(r).mean().item(), (near - any_two).mean().item()


directions = measure(lambda arrays: order_of(arrays)[0])
"""How many directions the responses of the channels fill; a map needs two."""


lead_beyond_first = measure(lambda arrays: order_of(arrays)[1])
"""By how much neighbors correlate more than any two channels without the first component."""


def coherence(moment: int) -> Measure:
    """Whether all patches need the same change of queries (eq-coherence), at a moment of training from 1."""
    return measure(lambda arrays: arrays["frame_query_coherence"][moment - 1].mean())


def rise(which: str, waves: int) -> Measure:
    """How the test loss rises, in nats, with the slowest ("slow") or strongest ("strong") waves alone."""
    return measure(lambda arrays: arrays[f"{which}_waves"][waves - 1] - arrays[f"{which}_waves"][-1])


def jump(position: int = 64) -> Measure:
    """How the loss of text rises at a position of the longest windows, in bits per character.

    The mean over `PLACES` positions from there on minus that over as many before.
    """

    def rising(arrays: Arrays) -> float:
        loss = arrays["loss_by_position"] / np.log(2)
        return float(loss[position : position + PLACES].mean() - loss[position - PLACES : position].mean())

    return measure(rising)


def falls(reach: int) -> Measure:
    """How steadily the trained bias on scores falls with distance: minus Spearman's correlation, 1 if always.

    Over distances 1 to reach; of a mean over layers and heads.
    """

    def falling(arrays: Arrays) -> float:
        bias = dict(zip(arrays["offsets"][:, 0], arrays["bias"].mean((0, 1)), strict=True))
        distances = range(1, reach + 1)
        by_distance = np.array([bias[-distance] for distance in distances])
        below, equal = (compare.outer(by_distance, by_distance).sum(1) for compare in (np.greater, np.equal))
        return -float(np.corrcoef(distances, below + equal / 2)[0, 1])  # with ranks, of equal ones the mean

    return measure(falling)


@measure
def later(arrays: Arrays) -> float:
    """The share of attention on patches after the query's minus that before, in raster order.

    Each offset counts by its pairs on the grid; a mean over layers and heads.
    """
    rows, columns = arrays["offsets"].T  # key − query
    pairs = (rows.max() + 1 - abs(rows)) * (columns.max() + 1 - abs(columns))
    weights = arrays["attention"] * pairs  # [layers, heads, offsets]
    side = np.where(rows == 0, np.sign(columns), np.sign(rows))  # 1: later in raster order
    return float(((weights * side).sum(-1) / weights.sum(-1)).mean())


# All runs of an arm


def kept(arm: str, name: str) -> list[np.ndarray]:
    """An array of every run that keeps it; none of an arm without runs."""
    found = [words.arrays_of(run) for run in words.runs_by_arm().get(arm, {}).values()]
    return [arrays[name] for arrays in found if name in arrays]


def over_rings(arm: str, what: str) -> np.ndarray:
    """Means of every run: [runs, ...].

    what: "correlation" by distance, or by mode "spectrum", "gradient" or "step".
    """
    pairs = zip(*(kept(arm, f"{which}_{what}") for which in ("query", "key")), strict=True)
    return np.array([np.mean(pair, axis=(0, 1, 2, 3)) for pair in pairs])


def neighbors_by_moment(arm: str) -> np.ndarray:
    """Correlation of neighbors on the ring at the moments of training that records keep: [runs, moments]."""
    import torch  # noqa: PLC0415 (takes seconds)

    from rollpe.topography import near_and_any, unpack_correlations  # noqa: PLC0415

    frames = (torch.from_numpy(f) for f in kept(arm, "frames"))
    return np.array([near_and_any(unpack_correlations(f))[0].mean((1, 2, 3, 4)).numpy() for f in frames])
