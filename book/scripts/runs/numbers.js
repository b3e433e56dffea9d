/* What the page of runs computes: means with intervals, bands, numbers as text.

   Here: functions of plain numbers, which tests/book/test_runs.py compares with rollpe_lab.statistics. Not here:
   quantiles of Student's t, which come with the data. */

import { mean, sum } from "../formulas.js";
import { text } from "../svg.js";

/** A result on a test set as text; what was not measured is a dash. */
export const fixed = (value, test) => (Number.isFinite(value) ? text(value, test.text ? 3 : 2) : "–");

/** Mean, SD and 95 % t-interval of independent runs; of one run they are NaN. quantiles[n − 2] is that of n runs. */
export const summarize = (values, quantiles) => {
  const n = values.length;
  const m = mean(values);
  const sd = Math.sqrt(sum(values.map((value) => (value - m) ** 2)) / (n - 1));
  const half = (quantiles[n - 2] * sd) / Math.sqrt(n);
  return { n, mean: m, sd, low: m - half, high: m + half };
};

/** Mean, lowest and highest of curves of one length, at each epoch that was scored. */
export const band = (curves) =>
  curves[0].flatMap((_, i) => {
    const values = curves.map((curve) => curve[i]).filter((value) => value !== null);
    if (!values.length) return [];
    return [{ epoch: i + 1, mean: mean(values), low: Math.min(...values), high: Math.max(...values) }];
  });
