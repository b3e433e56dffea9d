"""Statistics of runs: means with intervals, tests, agreement of models image by image.

The unit of replication is the *seed* (a training run from scratch): intervals and tests are over seeds
unless a name says otherwise, because the images of one test set share one trained model.

The t-tests are written with scipy's distributions: scipy.stats, which has them, takes a second to import.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rollpe.errors import InputError

CONFIDENCE = 0.95
INTERVAL = (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)
"""Its quantiles."""


# One arm


@dataclass(frozen=True)
class Summary:
    """Mean of n seeds; sd (n − 1 in the denominator) is None where n = 1, the t-interval where n < 3.

    Of two seeds an interval is 6.4 times as wide on each side as they are apart, and says nothing.
    """

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None


def summarize(values: Arm, confidence: float = CONFIDENCE) -> Summary:
    """Mean, standard deviation and Student t-interval of independent seeds, in the unit given."""
    sample = _sample(values)
    n = len(sample)
    if isinstance(values, Printed):
        mean, sd = values.mean, values.sd
    elif n == 1:
        return Summary(float(sample[0]), None, 1, None, None)
    elif sample.min() == sample.max():  # rounding of their sum would look like spread
        mean, sd = float(sample[0]), 0.0
    else:
        mean, sd = float(sample.mean()), float(sample.std(ddof=1))
    if n < 3:
        return Summary(mean, sd, n, None, None)
    half = float(special.stdtrit(n - 1, 0.5 + confidence / 2)) * sd / math.sqrt(n)
    return Summary(mean, sd, n, mean - half, mean + half)


@dataclass(frozen=True)
class Printed:
    """A result printed as mean ± SD over n runs, in percent; usable wherever a sample is."""

    mean: float
    sd: float
    n: int


Arm = ArrayLike | Printed


def _sample(arm: Arm) -> NDArray[np.float64]:
    """The numbers of an arm; of what is printed, numbers with this mean, SD and n."""
    if isinstance(arm, Printed):
        spaced = np.arange(arm.n) - (arm.n - 1) / 2
        return np.asarray(arm.mean + arm.sd * spaced / spaced.std(ddof=1))
    sample = np.asarray(arm, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise InputError(f"values={arm!r}: give a flat list of at least one finite number.")
    return sample


def student(values: Arm) -> float:
    """Two-sided p of Student's t-test that the mean of seeds that differ is 0."""
    s = summarize(values)
    assert s.sd, "a test needs seeds that differ"
    return _two_sided(s.mean / s.sd * math.sqrt(s.n), s.n - 1)


def _two_sided(t: float, dof: float) -> float:
    return float(2 * special.stdtr(dof, -abs(t)))


# Two arms


def by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> list[float]:
    """a − b for each seed that both have, in order of the seeds.

    Rounded: the same number of images may be another fraction in the last bits, and bits are no spread.
    """
    return [round(a[seed] - b[seed], 9) for seed in sorted(a.keys() & b.keys())]


@dataclass(frozen=True)
class Welch:
    """a − b over seeds: the difference, its two-sided p by Welch's t-test, and its interval."""

    difference: float
    p: float
    low: float
    high: float


def _samples(a: Arm, b: Arm) -> list[NDArray[np.float64]]:
    samples = [_sample(a), _sample(b)]
    for name, sample in zip("ab", samples, strict=True):
        if len(sample) < 2:
            raise InputError(
                f"{name} has n={len(sample)}: a test over seeds needs at least 2 seeds in each arm."
            )
    if not any(np.ptp(sample) for sample in samples):
        raise InputError("a and b have no spread at all: a test over seeds needs seeds that differ.")
    return samples


def _welch(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float, float]:
    """a − b, its standard error, and the degrees of freedom after Welch and Satterthwaite."""
    of_a, of_b = (sample.var(ddof=1) / len(sample) for sample in (a, b))
    dof = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    return float(a.mean() - b.mean()), math.sqrt(of_a + of_b), float(dof)


def welch(a: Arm, b: Arm, confidence: float = CONFIDENCE) -> Welch:
    """Welch's unequal-variance t-test of a − b, from samples or from mean, SD and n."""
    difference, error, dof = _welch(*_samples(a, b))
    half = float(special.stdtrit(dof, 0.5 + confidence / 2)) * error
    return Welch(difference, _two_sided(difference / error, dof), difference - half, difference + half)


def equivalence(a: Arm, b: Arm, *, margin: float) -> float:
    """p of Schuirmann's two one-sided Welch tests (TOST) against a margin chosen before looking.

    It is the larger of the two one-sided p-values: below α exactly when the (1 − 2α) interval of the
    difference lies inside (−margin, margin). A large Welch p is no evidence of equality; this is the test
    that can give some.
    """
    if not margin > 0:
        raise InputError(f"margin={margin}: give the largest difference that does not matter, above 0.")
    difference, error, dof = _welch(*_samples(a, b))
    return float(special.stdtr(dof, (abs(difference) - margin) / error))


def power(n: int, sd: float, difference: float) -> float:
    """Chance that a two-sided t-test at 0.05 with n seeds per arm finds a true difference (noncentral t)."""
    dof = 2 * (n - 1)
    shift = abs(difference) / sd * math.sqrt(n / 2)
    critical = special.stdtrit(dof, 0.975)
    return float(1 - special.nctdtr(dof, shift, critical) + special.nctdtr(dof, shift, -critical))


def seeds_needed(sd: float, difference: float) -> int:
    """Smallest number of seeds per arm at which the t-test finds ``difference`` four times in five."""
    if not sd > 0 or difference == 0:
        raise InputError(
            f"sd={sd}, difference={difference}: sd above 0 and a difference other than 0 are needed."
        )
    z = special.ndtri(0.975) + special.ndtri(0.8)
    n = max(2, math.ceil(2 * (z * sd / difference) ** 2))  # if the SD were known: about one too few
    while power(n, sd, difference) < 0.8:
        n += 1
    return n


# Image by image


@dataclass(frozen=True)
class Paired:
    """Accuracy of a minus accuracy of b on the same test images (a fraction), with its interval.

    ``over`` names what the interval generalizes to. "images" holds the trained models fixed: it is not
    an interval over seeds. p (McNemar, exact) exists for one run against one run.
    """

    difference: float
    low: float
    high: float
    over: Literal["images", "images and seeds"]
    p: float | None = None


def paired_by_image(bits_a: ArrayLike, bits_b: ArrayLike, *, resamples: int = 2000) -> Paired:
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
    rng = np.random.default_rng(0)
    over: Literal["images", "images and seeds"]
    over = "images and seeds" if min(seeds_a, seeds_b) > 1 else "images"
    mean_a, mean_b = a.mean(axis=0), b.mean(axis=0)
    draws = np.empty(resamples)
    for r in range(resamples):
        if over == "images and seeds":
            mean_a = a[rng.integers(seeds_a, size=seeds_a - 1)].mean(axis=0)
            mean_b = b[rng.integers(seeds_b, size=seeds_b - 1)].mean(axis=0)
        draws[r] = (mean_a - mean_b)[rng.integers(images, size=images)].mean()
    low, high = np.quantile(draws, INTERVAL)
    p = None
    if seeds_a == seeds_b == 1:
        only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
        p = min(1.0, float(2 * special.bdtr(min(only_a, only_b), only_a + only_b, 0.5)))
    return Paired(float(a.mean() - b.mean()), float(low), float(high), over, p)


@dataclass(frozen=True)
class Agreement:
    """Agreement of runs on the images that they classify correctly, arm against arm; fields [arms, arms].

    phi: correlation of right and wrong over images, mean over pairs of runs with different seeds.
    excess: phi_ab − (phi_aa + phi_bb)/2, zero if a run of a and a run of b agree as two runs of one arm do;
    low and high are its interval over images.
    """

    phi: NDArray[np.float64]
    excess: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def agreement(arms: Sequence[Mapping[int, ArrayLike]], *, resamples: int = 500) -> Agreement:
    """Compare arms by the images that their runs classify correctly; an arm maps seeds to bits [images].

    Models that differ by chance alone agree across arms as well as within them, whatever their accuracy; a
    difference between the arms makes them agree less. Pairs that share a seed are excluded, since they share
    the order of their data. Each arm needs two seeds. The interval is a percentile bootstrap over images: it
    holds for these runs, not for other seeds. ``apart`` is the test over runs.
    """
    bits, arm_of, others = _stacked(arms)
    member = (arm_of == np.arange(len(arms))[:, None]).astype(np.float64)  # [arms, runs]

    def mean_phi(bits: NDArray[np.float64]) -> NDArray[np.float64]:
        return (member @ (np.corrcoef(bits) * others) @ member.T) / (member @ others @ member.T)

    def above_own(phi: NDArray[np.float64]) -> NDArray[np.float64]:
        own = np.diag(phi)
        return phi - (own[:, None] + own) / 2

    rng = np.random.default_rng(0)
    images = bits.shape[1]
    draws = [above_own(mean_phi(bits[:, rng.integers(images, size=images)])) for _ in range(resamples)]
    low, high = np.quantile(draws, INTERVAL, axis=0)
    phi = mean_phi(bits)
    return Agreement(phi, above_own(phi), low, high)


def _stacked(
    arms: Sequence[Mapping[int, ArrayLike]],
) -> tuple[NDArray[np.float64], NDArray[np.int_], NDArray[np.float64]]:
    """Bits of all runs, their arms, and for each pair of runs whether their seeds differ."""
    if min(map(len, arms)) < 2:
        raise InputError("agreement within an arm needs at least two runs of it.")
    runs = [(arm, seed) for arm, of in enumerate(arms) for seed in of]
    bits = np.array([arms[arm][seed] for arm, seed in runs], dtype=np.float64)
    arm_of, seed_of = np.array(runs).T
    return bits, arm_of, (seed_of[:, None] != seed_of).astype(np.float64)


def apart(arm: Mapping[int, ArrayLike], others: Sequence[Mapping[int, ArrayLike]]) -> float:
    """p that an arm agrees with the others, taken as one, as its runs agree with one another and theirs do.

    The permutation test asks how often the same runs, divided in another way, agree across as little. It
    excludes pairs that share a seed, so it is exact for arms without common seeds and close for others. Four
    runs against twelve can have no p below 1/1820; four against four, none below 2/70.
    """
    bits, arm_of, counted = _stacked([arm, *others])
    correlation = np.asarray(np.corrcoef(bits))

    def mean(a: NDArray[np.int_], b: NDArray[np.int_]) -> Any:
        return np.average(correlation[np.ix_(a, b)], weights=counted[np.ix_(a, b)])

    def excess(a: NDArray[np.int_], b: NDArray[np.int_]) -> float:
        """Of two arms with these runs; rounded, so that assignments with the same agreement are equal."""
        try:
            return round(mean(a, b) - (mean(a, a) + mean(b, b)) / 2, 12)
        except ZeroDivisionError:  # runs of one seed have no pair that counts
            return math.nan

    from scipy import stats  # noqa: PLC0415 (takes a second)

    two = [np.flatnonzero(arm_of == 0), np.flatnonzero(arm_of > 0)]
    rng = np.random.default_rng(0)
    found = stats.permutation_test(two, excess, alternative="less", n_resamples=10_000, random_state=rng)
    ways = found.null_distribution[np.isfinite(found.null_distribution)]
    return max(1, int((ways <= found.statistic).sum())) / len(ways)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """p values adjusted for their number (Holm, 1979), comparable to the level of a single test."""
    raw = np.asarray(p, dtype=np.float64)
    order = np.argsort(raw)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate((len(raw) - np.arange(len(raw))) * raw[order]), 1)
    return adjusted
