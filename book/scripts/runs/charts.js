/* The drawings of the chosen runs, by Observable Plot: final results, learning curves, results by part of the test
   set. Each has its numbers as a table.

   Here: what is drawn. A group is {label, color, dash, symbol, runs, n, mean, sd, low, high, curve, parts}. Not here:
   colors of dark pages (../runs.js). */

import * as Plot from "@observablehq/plot";

import { clamp, element, spread } from "../svg.js";
import { fixed, scrolling, tableOf } from "./table.js";

const MOST_CLASSES = 12;
const LETTER = 6.2; // px, of the words on axes
const ROW = 23; // px
const BELOW = 40; // px, for an axis with its label

/** What Plot draws. Its parts lose their labels, which a screen reader cannot use: the drawing has one as a whole. */
const drawing = (options) => {
  const svg = Plot.plot({ ...options, style: { background: "none", fontSize: "12px", overflow: "visible" } });
  svg.querySelectorAll("[aria-label]").forEach((part) => part.removeAttribute("aria-label"));
  return svg;
};

/** A drawing with its caption. The numbers are folded under it, unless the table of means has them. */
const figure = (test, caption, options, columns, rows, ...above) => {
  const made = element("figure", { class: "runs-chart" });
  const svg = drawing({ color: { type: "identity" }, marginBottom: BELOW, ...options });
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${test.title}. ${caption} A table beside it has the numbers.`);
  made.append(element("figcaption", {}, `<p>${caption}</p>`), ...above, svg);
  if (rows) {
    const numbers = element("details", {}, "<summary>Numbers</summary>");
    numbers.append(scrolling(tableOf(columns, rows), `${test.title}, numbers: ${caption}`));
    made.append(numbers);
  }
  return made;
};

const dots = (group, data, more) =>
  Plot.dot(data, { stroke: group.color, symbol: group.symbol, strokeWidth: 1.5, r: 4, ...more });
const stroke = (group, points, x, y) =>
  Plot.line(points, { x, y, stroke: group.color, strokeDasharray: group.dash, strokeWidth: 2 });
const xAxis = (label, more) =>
  Plot.axisX({ label, labelAnchor: "center", labelArrow: "none", labelOffset: 34, ...more });
/** The room of labels beside a drawing, and the options that cut those that are longer. */
const roomOf = (rows, width) => {
  const longest = Math.max(...rows.map(({ label }) => label.length)) * LETTER;
  const room = Math.ceil(Math.min(longest + 12, width * 0.42));
  return [room, { lineWidth: (room - 8) / 12, textOverflow: "ellipsis" }];
};

/** A drawing whose rows have labels, and what is measured along them. */
const inRows = (test, rows, width, marks) => {
  const [marginLeft, cut] = roomOf(rows, width);
  return {
    width,
    height: ROW * rows.length + 70,
    marginLeft,
    marginRight: 16,
    x: { nice: true },
    y: { domain: rows.map(({ label }) => label) },
    marks: [
      Plot.gridX({ strokeOpacity: 0.15 }),
      Plot.axisY({ label: null, tickSize: 0, ...cut }),
      xAxis(test.unit, { ticks: Math.max(3, (width - marginLeft) / 90) }), // a tick for each 90 px
      ...marks,
    ],
  };
};

/** The look of a group beside its name. */
export const swatch = (group) => {
  const sign = drawing({
    width: 30,
    height: 12,
    margin: 0,
    axis: null,
    marks: [
      stroke(group, [0, 2], Plot.identity, () => 0),
      dots(group, [1], { x: Plot.identity, y: () => 0, fill: group.color, r: 3 }),
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

export const finals = (test, groups, width) => {
  const within = (value) => clamp(value, 0, test.text ? Infinity : 100);
  return figure(
    test,
    `Test ${test.measure}: dots are runs, hollow ones exploratory; bars are means with 95 % t-intervals.`,
    inRows(test, groups, width, [
      Plot.ruleY(groups, {
        x1: (group) => within(group.low ?? group.mean),
        x2: (group) => within(group.high ?? group.mean),
        y: "label",
        stroke: "currentColor",
        strokeOpacity: 0.4,
        strokeWidth: 3,
      }),
      ...groups.map((group) =>
        dots(group, group.runs, {
          x: "score",
          y: () => group.label,
          fill: (run) => (run.remark.includes("exploratory") ? "none" : group.color),
        }),
      ),
      Plot.tickX(groups, { x: "mean", y: "label", stroke: "currentColor", strokeWidth: 2.5, inset: 2 }),
    ]),
  );
};

export const curves = (test, groups, width) => {
  const drawn = groups.filter(({ curve }) => curve.length > 1);
  if (!drawn.length) return element("p", {}, "No learning curves: these runs have no more than one epoch.");
  const all = drawn.flatMap(({ curve }) => curve);
  const [low, high] = [Math.min(...all.map((p) => p.low)), Math.max(...all.map((p) => p.high))];
  const last = Math.max(...all.map((p) => p.epoch));
  const tall = Math.max(220, 16 * drawn.length); // px, of the axis
  const ends = drawn.map(({ curve }) => curve.at(-1).mean);
  const [marginRight, cut] = roomOf(drawn, width);
  const what = `held-out ${test.measure} (${test.unit})`;
  return figure(
    test,
    `Learning curves: ${what}, mean of the runs; bands reach from the lowest run to the highest.`,
    {
      width,
      height: tall + 36 + BELOW,
      marginTop: 36,
      marginRight,
      x: { domain: [1, last] },
      y: { domain: [low, high], label: what, labelArrow: "none" },
      marks: [
        Plot.gridY({ strokeOpacity: 0.15 }),
        xAxis("epoch", { ticks: Math.min(last - 1, 9) }),
        ...drawn.flatMap((line) => [
          Plot.areaY(line.curve, { x: "epoch", y1: "low", y2: "high", fill: line.color, fillOpacity: 0.18 }),
          stroke(line, line.curve, "epoch", "mean"),
        ]),
        Plot.text(drawn, {
          x: ({ curve }) => curve.at(-1).epoch,
          y: spread(ends, (16 * (high - low)) / tall, low, high),
          text: "label",
          fill: "color",
          textAnchor: "start",
          dx: 6,
          ...cut,
        }),
      ],
    },
    ["encoding", "epoch", "mean", "lowest", "highest", "runs"],
    drawn.flatMap(({ label, curve, n }) =>
      curve.map((p) => [label, p.epoch, ...[p.mean, p.low, p.high].map((value) => fixed(value, test)), n]),
    ),
  );
};

const lengths = (test, groups, width) => {
  if (!groups.some(({ parts }) => parts.filter(Number.isFinite).length > 1))
    return element("p", {}, "No results by length: these runs were scored in windows of one length.");
  return figure(
    test,
    `Test loss by length of the window: training had windows of ${test.parts[0]} characters.`,
    {
      width,
      height: 300,
      marginRight: 20,
      x: { type: "log", base: 2 },
      y: { label: test.unit, labelArrow: "none", nice: true },
      marks: [
        Plot.gridY({ strokeOpacity: 0.15 }),
        xAxis("characters", { ticks: test.parts, tickFormat: String }),
        ...groups.flatMap((group) => [
          stroke(group, group.parts, test.parts, Plot.identity),
          dots(group, group.parts, { x: test.parts, y: Plot.identity, fill: group.color }),
        ]),
      ],
    },
    ["characters", ...groups.map((group) => group.label)],
    test.parts.map((length, i) => [length, ...groups.map(({ parts }) => fixed(parts[i], test))]),
    legend(groups),
  );
};

/** Accuracy by class, the largest differences first. */
const classes = (test, groups, width) => {
  const range = (i) => {
    const values = groups.map(({ parts }) => parts[i]);
    return groups.length > 1 ? Math.max(...values) - Math.min(...values) : -values[0];
  };
  const order = [...test.parts.keys()].sort((i, j) => range(j) - range(i));
  const shown = order.slice(0, MOST_CLASSES).map((i) => ({ label: test.parts[i], i }));
  const marks = groups.map((group) =>
    dots(group, shown, { x: ({ i }) => group.parts[i], y: "label", fill: group.color }),
  );
  const first = groups.length > 1 ? "where the encodings differ most" : "that are hardest";
  return figure(
    test,
    `Test accuracy in ${shown.length} of ${order.length} classes, mean of the runs; those ${first} on top. ` +
      `The largest of many differences are partly chance. The numbers have all classes.`,
    inRows(test, shown, width, marks),
    ["class", ...groups.map((group) => group.label)],
    order.map((i) => [test.parts[i], ...groups.map(({ parts }) => fixed(parts[i], test))]),
    legend(groups),
  );
};

/** Means over runs of each part of the test set: accuracy of a class, loss in windows of a length. */
export const parts = (test, groups, width) => (test.text ? lengths : classes)(test, groups, width);
