/* What the page of runs computes: means with intervals, bands, agreement image by image.

   Here: functions of plain numbers, which tests/book/test_runs.py compares with rollpe_lab.statistics. Not here:
   quantiles of Student's t, which come with the data. */

import { mean, sum } from "../formulas.js";

/** Mean, SD and 95 % t-interval of independent runs; one run has neither. quantiles[n − 2] is that of n runs. */
export const summarize = (values, quantiles) => {
  const n = values.length;
  const m = Math.min(...values) === Math.max(...values) ? values[0] : mean(values);
  if (n === 1) return { n, mean: m, sd: null, low: null, high: null };
  const sd = Math.sqrt(sum(values.map((value) => (value - m) ** 2)) / (n - 1));
  const half = (quantiles[n - 2] * sd) / Math.sqrt(n);
  return { n, mean: m, sd, low: m - half, high: m + half };
};

/** Epoch by epoch the mean of curves, the lowest and the highest run; as long as the shortest curve. */
export const band = (curves) => {
  const epochs = Math.min(...curves.map((curve) => curve.length));
  return Array.from({ length: epochs }, (_, i) => {
    const values = curves.map((curve) => curve[i]).filter((value) => value !== null);
    return { epoch: i + 1, mean: mean(values), low: Math.min(...values), high: Math.max(...values) };
  }).filter((point) => Number.isFinite(point.low));
};

/** Base64 of one bit per test image, as bytes; the bits beyond the last image are 0. */
export const unpack = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

const ONES = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll("0", "").length);

/** Shares of the test images on which two runs are right or wrong alike, and both right; their correlation φ. */
export const agree = (a, b, images) => {
  let [both, onlyA, onlyB] = [0, 0, 0];
  a.forEach((byte, i) => {
    both += ONES[byte & b[i]];
    onlyA += ONES[byte & ~b[i] & 255];
    onlyB += ONES[b[i] & ~byte & 255];
  });
  const [rightA, rightB] = [both + onlyA, both + onlyB];
  const spread = Math.sqrt(rightA * (images - rightA) * rightB * (images - rightB));
  return {
    alike: 1 - (onlyA + onlyB) / images,
    both: both / images,
    phi: spread ? (both * images - rightA * rightB) / spread : NaN,
  };
};

/** Means of `agree` over pairs of runs, one of each group; runs are {seed, bits}, groups lists of runs.

    Pairs of equal seeds share the order of their data: they count only where there are no others. A run is not
    paired with itself; null where no pair is left. */
export const agreement = (one, other, images) => {
  const pairs = one.flatMap((a) => other.filter((b) => b !== a).map((b) => [a, b]));
  const apart = pairs.filter(([a, b]) => a.seed !== b.seed);
  const found = (apart.length ? apart : pairs).map(([a, b]) => agree(a.bits, b.bits, images));
  if (!found.length) return null;
  return Object.fromEntries(["alike", "both", "phi"].map((key) => [key, mean(found.map((f) => f[key]))]));
};
