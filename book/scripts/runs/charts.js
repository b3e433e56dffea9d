/* The drawings of the chosen runs, by Observable Plot: learning curves, final results, results by part of the test
   set, agreement. Each has its numbers as a table under it.

   Here: what is drawn. A group is {label, color, dash, symbol, runs}. Not here: what it is computed from
   (numbers.js), colors of dark pages (../runs.js). */

import * as Plot from "@observablehq/plot";

import { mean } from "../formulas.js";
import { element, spread, text } from "../svg.js";
import { agreement, band, summarize } from "./numbers.js";

const MOST_PARTS = 12;
const MOST_GROUPS = 24;
const LETTER = 6.2; // px, of the words on axes
const ROW = 20; // px
export const SHARES = { alike: "both right or both wrong", both: "both right", phi: "correlation φ" };

const fixed = (value, digits = 2) => (value === null || !Number.isFinite(value) ? "–" : text(value, digits));
const unit = (test) => (test.text ? "bits per character" : "%");
const digitsOf = (test) => (test.text ? 3 : 2);

/** A table of text; the cells of the first column are the heads of their rows. */
export const tableOf = (columns, rows) => {
  const table = element("table", { class: "table" }, "<thead><tr></tr></thead><tbody></tbody>");
  table.tHead.rows[0].append(...columns.map((name) => element("th", { scope: "col" }, name)));
  rows.forEach((values) => {
    const row = table.tBodies[0].insertRow();
    const made = values.map((value, i) => {
      const node = element(i ? "td" : "th", i ? {} : { scope: "row" });
      node.append(value);
      return node;
    });
    row.append(...made);
  });
  return table;
};

/** A box in which wide things scroll, also by keyboard. */
export const scrolling = (content, label) => {
  const box = element("div", { class: "runs-scroll", tabindex: "0", role: "region", "aria-label": label });
  box.append(content);
  return box;
};

/** What Plot draws. Its parts lose their labels, which a screen reader cannot use: the drawing has one as a whole. */
const drawing = (options) => {
  const svg = Plot.plot({ ...options, style: { background: "none", fontSize: "12px", overflow: "visible" } });
  svg.querySelectorAll("[aria-label]").forEach((part) => part.removeAttribute("aria-label"));
  return svg;
};

/** A drawing with its caption, and its numbers folded under it. */
const figure = (test, caption, options, columns, rows, ...above) => {
  const made = element("figure", { class: "runs-chart" });
  const svg = drawing(options);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${test.title}. ${caption} The numbers are in the table below.`);
  const numbers = element("details", {}, "<summary>Numbers</summary>");
  numbers.append(scrolling(tableOf(columns, rows), `${test.title}, numbers: ${caption}`));
  made.append(element("figcaption", {}, `<p>${caption}</p>`), ...above);
  made.append(options.width > options.room ? scrolling(svg, `${test.title}: ${caption}`) : svg, numbers);
  return made;
};

const scores = (group) => group.runs.map((run) => run.score);
const dots = (group, data, more) =>
  Plot.dot(data, { stroke: group.color, symbol: group.symbol, strokeWidth: 1.5, r: 4, ...more });
const stroke = (group, points, x, y) =>
  Plot.line(points, { x, y, stroke: group.color, strokeDasharray: group.dash, strokeWidth: 2 });
const longest = (names) => Math.max(...names.map((name) => name.length)) * LETTER;
const inset = (names, width) => Math.ceil(Math.min(longest(names) + 12, width * 0.42));
/** Names of rows on the left, cut where there is no room. */
const rowNames = (margin, more) =>
  Plot.axisY({ label: null, tickSize: 0, lineWidth: (margin - 8) / 12, textOverflow: "ellipsis", ...more });

const xAxis = (label, more) =>
  Plot.axisX({ label, labelAnchor: "center", labelArrow: "none", labelOffset: 34, ...more });
const BELOW = 40; // px, for an axis with its label

/** A drawing whose rows have names, and what is measured along them. */
const inRows = (width, height, marginLeft, names, label, marks) => ({
  width,
  height,
  marginLeft,
  marginRight: 16,
  marginBottom: BELOW,
  x: { nice: true },
  y: { domain: names },
  color: { type: "identity" },
  marks: [
    Plot.gridX({ strokeOpacity: 0.15 }),
    rowNames(marginLeft),
    xAxis(label, { ticks: Math.max(3, (width - marginLeft) / 90) }), // a tick for each 90 px
    ...marks,
  ],
});

/** The look of a group beside its name. */
export const swatch = ({ color, dash, symbol }) => {
  const sign = drawing({
    width: 30,
    height: 12,
    margin: 0,
    axis: null,
    x: { domain: [0, 2] },
    y: { domain: [0, 2] },
    marks: [
      Plot.ruleY([1], { x1: 0.1, x2: 1.9, stroke: color, strokeDasharray: dash, strokeWidth: 2 }),
      Plot.dot([[1, 1]], { stroke: color, fill: color, symbol, r: 3 }),
    ],
  });
  sign.setAttribute("aria-hidden", "true");
  return sign;
};

const legend = (groups) => {
  const list = element("ul", { class: "runs-legend" });
  groups.forEach((group) => {
    const item = element("li");
    item.append(swatch(group), group.label);
    list.append(item);
  });
  return list;
};

export const curves = (test, groups, width) => {
  const lines = groups.map((group) => ({ group, points: band(group.runs.map((run) => run.curve)) }));
  const drawn = lines.filter(({ points }) => points.length > 1);
  if (!drawn.length) return element("p", {}, "No learning curves: these runs have no more than one epoch.");
  const all = drawn.flatMap(({ points }) => points);
  const [low, high] = [Math.min(...all.map((p) => p.low)), Math.max(...all.map((p) => p.high))];
  const tall = Math.max(220, 16 * drawn.length); // px, of the axis
  const ends = drawn.map(({ points }) => ((points.at(-1).mean - low) / (high - low || 1)) * tall);
  const heights = spread(ends, 16); // px above the axis, where names of lines may have to go beyond it
  const [below, above] = [Math.max(0, -Math.min(...heights)), Math.max(0, Math.max(...heights) - tall)];
  const names = drawn.map(({ group }) => group.label);
  const marginRight = inset(names, width);
  const what = `held-out ${test.text ? "loss (bits per character)" : "accuracy (%)"}`;
  const last = Math.max(...all.map((p) => p.epoch));
  return figure(
    test,
    `Learning curves: ${what}, mean of the runs; bands reach from the lowest run to the highest.`,
    {
      width,
      height: tall + 36 + above + BELOW + below,
      marginTop: 36 + above,
      marginRight,
      marginBottom: BELOW + below,
      x: { domain: [1, last] },
      y: { domain: [low, high], label: what, labelArrow: "none" },
      marks: [
        Plot.gridY({ strokeOpacity: 0.15 }),
        xAxis("epoch", { ticks: Math.min(last - 1, 9) }),
        ...drawn.flatMap(({ group, points }) => [
          Plot.areaY(points, { x: "epoch", y1: "low", y2: "high", fill: group.color, fillOpacity: 0.18 }),
          stroke(group, points, "epoch", "mean"),
        ]),
        ...drawn.map(({ group, points }, i) =>
          Plot.text([points.at(-1)], {
            x: "epoch",
            y: "mean",
            dy: ends[i] - heights[i],
            text: () => group.label,
            fill: group.color,
            textAnchor: "start",
            dx: 6,
            lineWidth: (marginRight - 8) / 12,
            textOverflow: "ellipsis",
          }),
        ),
      ],
    },
    ["encoding", "epoch", "mean", "lowest", "highest", "runs"],
    drawn.flatMap(({ group, points }) =>
      points.map((p) => [
        group.label,
        p.epoch,
        ...[p.mean, p.low, p.high].map((v) => fixed(v)),
        group.runs.length,
      ]),
    ),
  );
};

/** A group in the table of final results: runs, mean ± SD, interval. */
export const summaryOf = (test, group, quantiles) => {
  const { n, mean, sd, low, high } = summarize(scores(group), quantiles);
  const [m, s, from, to] = [mean, sd, low, high].map((value) => fixed(value, digitsOf(test)));
  return sd === null ? [n, m, "–"] : [n, `${m} ± ${s}`, `${from} to ${to}`];
};

export const finals = (test, groups, width, quantiles) => {
  const rows = groups.map((group) => ({
    group,
    name: group.label,
    ...summarize(scores(group), quantiles),
  }));
  rows.sort((a, b) => (test.text ? a.mean - b.mean : b.mean - a.mean));
  const names = rows.map((row) => row.name);
  const clamp = (value) => Math.max(0, test.text ? value : Math.min(value, 100));
  const intervals = rows.filter((row) => row.sd !== null);
  return figure(
    test,
    `Test ${test.text ? "loss" : "accuracy"}: dots are runs, hollow ones exploratory; bars are means with 95 % ` +
      `t-intervals over seeds.`,
    inRows(width, ROW * 1.3 * rows.length + 70, inset(names, width), names, unit(test), [
      Plot.ruleY(intervals, {
        x1: (row) => clamp(row.low),
        x2: (row) => clamp(row.high),
        y: "name",
        stroke: "currentColor",
        strokeOpacity: 0.4,
        strokeWidth: 3,
      }),
      ...rows.map((row) =>
        dots(row.group, row.group.runs, {
          x: "score",
          y: () => row.name,
          fill: (run) => (run.later ? "none" : row.group.color),
        }),
      ),
      Plot.tickX(rows, { x: "mean", y: "name", stroke: "currentColor", strokeWidth: 2.5, inset: 2 }),
    ]),
    ["encoding", "runs", `mean ± SD (${unit(test)})`, "95 % interval"],
    rows.map(({ group, name }) => [name, ...summaryOf(test, group, quantiles)]),
  );
};

/** Mean over runs of each part of the test set: accuracy of a class in percent, bits in windows of a length. */
export const byPart = (test, group) =>
  test.parts.map((_, i) => {
    const values = group.runs.map((run) => run.parts[i] ?? null).filter((value) => value !== null);
    if (!values.length) return null;
    return test.text ? mean(values) : (100 * mean(values)) / test.sizes[i];
  });

const partTable = (test, groups, means, order) => [
  [test.text ? "characters" : "class", ...groups.map((group) => group.label)],
  order.map((i) => [test.parts[i], ...means.map((mean) => fixed(mean[i], test.text ? 3 : 1))]),
];

const lengths = (test, groups, width) => {
  const means = groups.map((group) => byPart(test, group));
  const points = groups.map((_, g) =>
    test.parts
      .map((part, i) => ({ length: Number(part), bits: means[g][i] }))
      .filter((point) => point.bits !== null),
  );
  if (!points.some((of) => of.length > 1))
    return element("p", {}, "No results by length: these runs were scored in windows of one length.");
  return figure(
    test,
    `Test loss by length of the window: training had windows of ${test.parts[0]} characters.`,
    {
      width,
      height: 300,
      marginRight: 20,
      marginBottom: BELOW,
      x: { type: "log", base: 2 },
      y: { label: "bits per character", labelArrow: "none", nice: true },
      marks: [
        Plot.gridY({ strokeOpacity: 0.15 }),
        xAxis("characters", { ticks: test.parts.map(Number), tickFormat: String }),
        ...groups.flatMap((group, g) => [
          stroke(group, points[g], "length", "bits"),
          dots(group, points[g], { x: "length", y: "bits", fill: group.color }),
        ]),
      ],
    },
    ...partTable(
      test,
      groups,
      means,
      test.parts.map((_, i) => i),
    ),
    legend(groups),
  );
};

/** Accuracy by class, the largest differences first; `all` shows every class of many. */
const classes = (test, groups, width, all, toggle) => {
  const means = groups.map((group) => byPart(test, group));
  const range = (i) => {
    const values = means.map((mean) => mean[i]);
    return groups.length > 1 ? Math.max(...values) - Math.min(...values) : -values[0];
  };
  const order = test.parts.map((_, i) => i).sort((i, j) => range(j) - range(i));
  const shown = all ? order : order.slice(0, MOST_PARTS);
  const points = shown.flatMap((i) =>
    groups.map((group, g) => ({ group, part: test.parts[i], accuracy: means[g][i] })),
  );
  const first = groups.length > 1 ? "those where the encodings differ most" : "the least accurate";
  const cut = order.length > MOST_PARTS;
  const above = [legend(groups)];
  if (cut) {
    const words = all ? `Show ${MOST_PARTS} classes` : `Show all ${order.length} classes`;
    const button = element("button", { type: "button", "data-all": "" }, words);
    button.addEventListener("click", toggle);
    above.push(button);
  }
  return figure(
    test,
    `Test accuracy by class, mean of the runs: ${cut && !all ? `the ${MOST_PARTS} classes of ${order.length} that come first, ` : ""}` +
      `${first} on top. The largest of many differences are partly chance.`,
    inRows(
      width,
      ROW * shown.length + 70,
      inset(test.parts, width),
      shown.map((i) => test.parts[i]),
      "%",
      groups.map((group) =>
        dots(
          group,
          points.filter((point) => point.group === group),
          { x: "accuracy", y: "part", fill: group.color },
        ),
      ),
    ),
    ...partTable(test, groups, means, order),
    ...above,
  );
};

export const parts = (test, groups, width, all, toggle) => {
  if (!test.parts.length)
    return element("p", {}, "No results by class: the classes of this test set are not known.");
  return test.text ? lengths(test, groups, width) : classes(test, groups, width, all, toggle);
};

/** A map of how far groups agree on each test image; `share` is a key of SHARES. */
export const agreements = (test, groups, width, share) => {
  const items = test.text ? "test characters" : "test images";
  if (groups.length > MOST_GROUPS)
    return element("p", {}, `Agreement is drawn for up to ${MOST_GROUPS} rows; here are ${groups.length}.`);
  const pairs = groups.flatMap((one, i) =>
    groups.map((other, j) => ({ i, j, ...agreement(one.runs, other.runs, test.images) })),
  );
  const found = pairs.filter((pair) => Number.isFinite(pair[share]));
  if (!found.length) return element("p", {}, "No agreement: it takes two runs that are sometimes right.");
  const percent = (value) => fixed(100 * value, 1);
  const shown = share === "phi" ? fixed : percent;
  const values = found.map((pair) => pair[share]);
  const middle = (Math.min(...values) + Math.max(...values)) / 2;
  const names = groups.map((group, i) => `${i + 1} ${group.label}`);
  const marginLeft = inset(names, width);
  const wanted = marginLeft + 40 * groups.length;
  return figure(
    test,
    `Agreement on the ${items}: ${SHARES[share]}${share === "phi" ? "" : ", % of them"}; means over pairs of runs, of different seeds ` +
      `where there are any.`,
    {
      width: Math.max(wanted, Math.min(width, marginLeft + 64 * groups.length)),
      room: width,
      height: 32 * groups.length + 40,
      marginLeft,
      marginTop: 30,
      marginBottom: 10,
      x: {
        domain: groups.map((_, i) => i),
        axis: "top",
        tickFormat: (i) => `${i + 1}`,
        tickSize: 0,
        label: null,
      },
      y: { domain: groups.map((_, i) => i), label: null },
      color: { type: "linear", scheme: "cividis" },
      marks: [
        rowNames(marginLeft, { tickFormat: (i) => names[i] }),
        Plot.cell(found, { x: "j", y: "i", fill: share, inset: 0.5 }),
        Plot.text(found, {
          x: "j",
          y: "i",
          text: (pair) => shown(pair[share]),
          fill: (pair) => (pair[share] > middle ? "#000000" : "#fefefe"),
          fontSize: 11,
        }),
      ],
    },
    ["runs", "and", ...Object.values(SHARES)],
    found
      .filter(({ i, j }) => i <= j)
      .map(({ i, j, alike, both, phi }) => [
        names[i],
        names[j],
        `${percent(alike)} %`,
        `${percent(both)} %`,
        fixed(phi),
      ]),
  );
};
