"""Statistics of runs: means with intervals, tests, agreement of models image by image.

The unit of replication is the *seed* (a training run from scratch): intervals and tests are over seeds
unless a name says otherwise, because the images of one test set share one trained model. Every probability
comes from scipy.

Here: functions of plain numbers and arrays, each with its source. Not here: which runs are compared
(rollpe.evidence), records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rollpe.errors import InputError

CONFIDENCE = 0.95


# One arm


@dataclass(frozen=True)
class Summary:
    """Mean of n seeds; sd (n − 1 in the denominator) and the t-interval are None where n = 1."""

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None


def _summary(mean: float, sd: float | None, n: int, confidence: float) -> Summary:
    if n == 1 or sd is None:
        return Summary(mean, None, n, None, None)
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * sd / math.sqrt(n)
    return Summary(mean, sd, n, mean - half, mean + half)


def summarize(values: ArrayLike, confidence: float = CONFIDENCE) -> Summary:
    """Mean, standard deviation and Student t-interval of independent seeds, in the unit given."""
    sample = _sample(values, "values")
    if sample.min() == sample.max():  # rounding of their sum would look like spread
        return _summary(float(sample[0]), 0.0, int(sample.size), confidence)
    return _summary(float(sample.mean()), float(sample.std(ddof=1)), int(sample.size), confidence)


@dataclass(frozen=True)
class Printed:
    """A result printed as mean ± SD over n runs, in percent; usable wherever a sample is."""

    mean: float
    sd: float
    n: int
    label: str = ""
    source: str = ""

    def summary(self, confidence: float = CONFIDENCE) -> Summary:
        return _summary(self.mean, self.sd, self.n, confidence)


def _sample(values: ArrayLike, name: str) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise InputError(f"{name}={values!r}: give a flat list of at least one finite number.")
    return sample


# Two arms


@dataclass(frozen=True)
class Welch:
    """a − b over seeds: Welch's t, its degrees of freedom, two-sided p, interval of the difference."""

    difference: float
    t: float
    dof: float
    p: float
    low: float
    high: float


def _moments(arm: ArrayLike | Summary | Printed, name: str) -> tuple[float, float, int]:
    if not isinstance(arm, (Summary, Printed)):
        arm = summarize(arm)
    if arm.n < 2 or arm.sd is None:
        raise InputError(f"{name} has n={arm.n}: a test over seeds needs at least 2 seeds in each arm.")
    return arm.mean, arm.sd, arm.n


def _difference(
    a: ArrayLike | Summary | Printed, b: ArrayLike | Summary | Printed
) -> tuple[float, float, float]:
    """Difference of means, its standard error, and the Welch–Satterthwaite degrees of freedom."""
    (mean_a, sd_a, n_a), (mean_b, sd_b, n_b) = _moments(a, "a"), _moments(b, "b")
    var_a, var_b = sd_a**2 / n_a, sd_b**2 / n_b
    if var_a + var_b == 0:
        raise InputError("a and b have no spread at all: a test over seeds needs seeds that differ.")
    dof = (var_a + var_b) ** 2 / (var_a**2 / (n_a - 1) + var_b**2 / (n_b - 1))
    return mean_a - mean_b, math.sqrt(var_a + var_b), dof


def welch(
    a: ArrayLike | Summary | Printed,
    b: ArrayLike | Summary | Printed,
    confidence: float = CONFIDENCE,
) -> Welch:
    """Welch's unequal-variance t-test of a − b, from samples or from mean, SD and n."""
    difference, error, dof = _difference(a, b)
    t = difference / error
    half = float(stats.t.ppf(0.5 + confidence / 2, dof)) * error
    p = 2 * float(stats.t.sf(abs(t), dof))
    return Welch(difference, t, dof, p, difference - half, difference + half)


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests: is a − b inside ±margin? (low, high) is the interval TOST compares."""

    difference: float
    margin: float
    p: float
    low: float
    high: float
    equivalent: bool


def equivalence(
    a: ArrayLike | Summary | Printed,
    b: ArrayLike | Summary | Printed,
    *,
    margin: float,
    alpha: float = 0.05,
) -> Equivalence:
    """Schuirmann's two one-sided Welch tests (TOST) against a margin chosen before looking.

    p is the larger of the two one-sided p-values. p < alpha exactly when the (1 − 2·alpha) interval of
    the difference, returned as (low, high), lies inside (−margin, margin). A large Welch p is no
    evidence of equality; this is the test that can give some.
    """
    if not margin > 0:
        raise InputError(f"margin={margin}: give the largest difference that does not matter, above 0.")
    difference, error, dof = _difference(a, b)
    p_low = float(stats.t.sf((difference + margin) / error, dof))
    p_high = float(stats.t.cdf((difference - margin) / error, dof))
    half = float(stats.t.ppf(1 - alpha, dof)) * error
    p = max(p_low, p_high)
    return Equivalence(difference, margin, p, difference - half, difference + half, p < alpha)


def power(n: int, sd: float, difference: float, alpha: float = 0.05) -> float:
    """Chance that a two-sided t-test with n seeds per arm finds a true difference (noncentral t)."""
    if n < 2 or not sd > 0:
        raise InputError(f"n={n}, sd={sd}: power needs at least 2 seeds per arm and sd above 0.")
    dof = 2 * (n - 1)
    shift = abs(difference) / sd * math.sqrt(n / 2)
    critical = stats.t.ppf(1 - alpha / 2, dof)
    return float(stats.nct.sf(critical, dof, shift) + stats.nct.cdf(-critical, dof, shift))


def seeds_needed(
    sd: float,
    difference: float,
    *,
    target: float = 0.8,
    alpha: float = 0.05,
    method: Literal["t", "normal"] = "t",
) -> int:
    """Smallest number of seeds per arm at which ``difference`` is found with probability ``target``.

    "t" solves the two-sample t-test's power exactly. "normal" is the textbook formula
    n = 2 (z_{1−α/2} + z_target)² (sd/difference)², which takes the SD as known and so comes out
    about one seed lower.
    """
    if not sd > 0 or difference == 0 or not alpha < target < 1:
        raise InputError(
            f"sd={sd}, difference={difference}, target={target}: sd above 0, a difference other than 0 "
            f"and a target between {alpha} and 1 are needed."
        )
    z = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(target))
    n = max(2, math.ceil(2 * (z * sd / difference) ** 2))
    if method == "normal":
        return n
    if method != "t":
        raise InputError(f"method={method!r}: use 't' or 'normal'.")
    while power(n, sd, difference, alpha) < target:
        n += 1
    return n


# Image by image


@dataclass(frozen=True)
class Paired:
    """Accuracy of a minus accuracy of b on the same test images (a fraction), with its interval.

    ``over`` names what the interval generalizes to. "images" holds the trained models fixed: it is not
    an interval over seeds. only_a, only_b and p (McNemar, exact) exist for one run against one run.
    """

    difference: float
    low: float
    high: float
    over: Literal["images", "images and seeds"]
    seeds: tuple[int, int]
    images: int
    only_a: int | None = None
    only_b: int | None = None
    p: float | None = None


def paired_by_image(
    bits_a: ArrayLike,
    bits_b: ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = 2000,
    seed: int = 0,
) -> Paired:
    """Compare right/wrong bits on the same images: [images] each, or [seeds_a, images] and [seeds_b, images].

    One run against one run: McNemar's exact test, i.e. a two-sided binomial test of the images that only
    one of the two got right. The interval is a percentile bootstrap. Each resample draws images with
    replacement, the same images for both arms; and, where both arms have at least two seeds, also draws
    s − 1 of the s seeds of each arm with replacement (s − 1, not s, makes the bootstrap variance of a
    mean equal its unbiased estimate). With two or three seeds that interval is still rough: the test
    over seeds is :func:`welch`.
    """
    a, b = (np.atleast_2d(np.asarray(bits, dtype=bool)) for bits in (bits_a, bits_b))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or 0 in a.shape + b.shape:
        raise InputError(
            f"bits of shapes {np.shape(bits_a)} and {np.shape(bits_b)}: both arms need one bit per image "
            f"for the same images."
        )
    (seeds_a, images), seeds_b = a.shape, b.shape[0]
    rng = np.random.default_rng(seed)
    over: Literal["images", "images and seeds"]
    over = "images and seeds" if min(seeds_a, seeds_b) > 1 else "images"
    mean_a, mean_b = a.mean(axis=0), b.mean(axis=0)
    draws = np.empty(resamples)
    for r in range(resamples):
        if over == "images and seeds":
            mean_a = a[rng.integers(seeds_a, size=seeds_a - 1)].mean(axis=0)
            mean_b = b[rng.integers(seeds_b, size=seeds_b - 1)].mean(axis=0)
        draws[r] = (mean_a - mean_b)[rng.integers(images, size=images)].mean()
    low, high = np.quantile(draws, [0.5 - confidence / 2, 0.5 + confidence / 2])
    result = (float(a.mean() - b.mean()), float(low), float(high), over, (seeds_a, seeds_b), images)
    if seeds_a != 1 or seeds_b != 1:
        return Paired(*result)
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    p = float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return Paired(*result, only_a, only_b, p)


@dataclass(frozen=True)
class Agreement:
    """Agreement of runs on the images that they classify correctly, arm against arm; fields [arms, arms].

    phi: correlation of right and wrong over images, mean over pairs of runs with different seeds.
    excess: phi_ab − (phi_aa + phi_bb)/2, zero if a run of a and a run of b agree as two runs of one arm do;
    low and high are its interval over images.
    p: share of the assignments of the same runs to the two arms with as little agreement across them (1 on
    the diagonal). Four runs of each can have no p below 2/70.
    """

    phi: NDArray[np.float64]
    excess: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p: NDArray[np.float64]


def agreement(
    arms: Sequence[Mapping[int, ArrayLike]],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = 500,
    seed: int = 0,
) -> Agreement:
    """Compare arms by the images that their runs classify correctly; an arm maps seeds to bits [images].

    Models that differ by chance alone agree across arms as well as within them, whatever their accuracy; a
    difference between the arms makes them agree less. Pairs that share a seed are excluded, since they share
    the order of their data. Each arm needs two seeds. The interval is a percentile bootstrap over images: it
    holds for these runs, not for other seeds. The permutation test, p, is over runs and excludes pairs that
    share a seed as well, so it is exact for arms without common seeds and close for others.
    """
    runs = [(arm, seed_) for arm, of in enumerate(arms) for seed_ in of]
    bits = np.array([arms[arm][seed_] for arm, seed_ in runs], dtype=np.float64)
    arm_of, seed_of = np.array(runs).T
    if min(map(len, arms)) < 2:
        raise InputError("agreement within an arm needs at least two runs of it.")
    member = (arm_of == np.arange(len(arms))[:, None]).astype(np.float64)  # [arms, runs]
    others = (seed_of[:, None] != seed_of).astype(np.float64)

    def mean_phi(bits: NDArray[np.float64]) -> NDArray[np.float64]:
        return (member @ (np.corrcoef(bits) * others) @ member.T) / (member @ others @ member.T)

    def above_own(phi: NDArray[np.float64]) -> NDArray[np.float64]:
        own = np.diag(phi)
        return phi - (own[:, None] + own) / 2

    rng = np.random.default_rng(seed)
    images = bits.shape[1]
    draws = [above_own(mean_phi(bits[:, rng.integers(images, size=images)])) for _ in range(resamples)]
    low, high = np.quantile(draws, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=0)
    phi = mean_phi(bits)
    p = np.ones_like(phi)
    for a, b in itertools.combinations(range(len(arms)), 2):
        two = np.isin(arm_of, (a, b))
        p[a, b] = p[b, a] = _permuted(
            np.atleast_2d(np.corrcoef(bits[two])), others[np.ix_(two, two)], arm_of[two] == a, rng
        )
    return Agreement(phi, above_own(phi), low, high, p)


def _permuted(
    correlation: NDArray[np.float64],
    counted: NDArray[np.float64],
    first: NDArray[np.bool_],
    rng: np.random.Generator,
) -> float:
    """Share of the choices of as many runs as ``first`` whose excess is at most that of ``first``."""
    runs, size = len(first), int(first.sum())
    if math.comb(runs, size) <= 10_000:
        subsets = itertools.combinations(range(runs), size)
        ways = np.array([np.isin(np.arange(runs), which) for which in subsets])
    else:
        ways = np.vstack([first, rng.permuted(np.tile(first, (9_999, 1)), axis=1)])

    def excess(one: NDArray[np.bool_]) -> NDArray[np.float64]:
        def mean(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
            return ((left @ (correlation * counted)) * right).sum(1) / ((left @ counted) * right).sum(1)

        a, b = one * 1.0, 1.0 - one
        with np.errstate(invalid="ignore"):  # two runs of one seed have no pair that counts
            return mean(a, b) - (mean(a, a) + mean(b, b)) / 2

    others = excess(ways)
    return float((others[np.isfinite(others)] <= excess(first[None]) + 1e-12).mean())


def repeatability(
    bits_a: ArrayLike, bits_b: ArrayLike, groups: ArrayLike, *, splits: int = 50, seed: int = 0
) -> float:
    """Reliability of the gains of groups of images: 0 if they are chance, 1 if they repeat exactly.

    The gain of a group is the accuracy of arm a minus that of arm b on its images; bits are [seeds, images],
    groups [images]. The images of each group are halved at random, and the gains on one half, from one seed
    of each arm, are correlated over groups with the gains on the other half, from another seed: the two
    share neither models nor images. Spearman and Brown's formula 2r/(1 + r) gives the correlation for whole
    groups. Mean over pairs of seeds and over ``splits``.
    """
    a, b = (np.asarray(bits, dtype=np.float64) for bits in (bits_a, bits_b))
    seeds = min(len(a), len(b))
    if seeds < 2:
        raise InputError("repeatability needs two seeds of each arm.")
    gain = a[:seeds] - b[:seeds]
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    size = np.bincount(group)
    if size.min() < 2:
        raise InputError("repeatability needs two images of each group.")
    belongs = np.eye(len(names))[group]  # [images, groups]
    start = np.cumsum(size) - size
    rng = np.random.default_rng(seed)
    correlations = []
    for _ in range(splits):
        order = np.lexsort((rng.random(len(group)), group))  # at random within each group
        first = np.empty(len(group))
        first[order] = 2 * (np.arange(len(group)) - start[group[order]]) < size[group[order]]
        halves = [(gain * half) @ belongs / (half @ belongs) for half in (first, 1 - first)]
        r = np.corrcoef(halves[0], halves[1])[:seeds, seeds:]
        correlations.append(r[~np.eye(seeds, dtype=bool)].mean())
    mean = float(np.mean(correlations))
    return 2 * mean / (1 + mean)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """p values adjusted for their number (Holm, 1979), comparable to the level of a single test."""
    raw = np.asarray(p, dtype=np.float64)
    order = np.argsort(raw)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate((len(raw) - np.arange(len(raw))) * raw[order]), 1)
    return adjusted
