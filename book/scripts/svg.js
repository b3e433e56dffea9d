/* Small tools of the moving figures: numbers as text, pieces of the page, pieces of SVG as text.

   Here: functions without memory. Not here: formulas (formulas.js), colors and sizes (_static/waves.css). */

import { mod, TAU } from "./formulas.js";

export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
/** A number as it is read on the page, with a real minus and no −0. */
export const text = (value, digits = 2) => {
  const rounded = value.toFixed(digits);
  return (Number(rounded) === 0 ? Math.abs(value).toFixed(digits) : rounded).replace("-", "−");
};
export const element = (tag, attributes = {}, html = "") => {
  const node = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
  node.innerHTML = html;
  return node;
};
export const plain = (html) => html.replace(/<[^>]+>/g, "");

// Pieces of SVG, as text.
export const each = (items, draw) => items.map(draw).join("");
export const px = (value) => +value.toFixed(2);
export const line = (x1, y1, x2, y2, kind, more = "") =>
  `<line x1="${px(x1)}" y1="${px(y1)}" x2="${px(x2)}" y2="${px(y2)}" class="${kind}" ${more}/>`;
export const circle = (x, y, r, kind) => `<circle cx="${px(x)}" cy="${px(y)}" r="${px(r)}" class="${kind}"/>`;
export const box = (x, y, w, h, kind, more = "") =>
  `<rect x="${px(x)}" y="${px(y)}" width="${px(w)}" height="${px(h)}" class="${kind}" ${more}/>`;
/** A map of rows of shares in [0, 1], fitted into w × h; its cells share their edges. */
export const cells = (rows, left, top, w, h, kind) => {
  const x = (i) => Math.round(left + (w * i) / rows[0].length);
  const y = (i) => Math.round(top + (h * i) / rows.length);
  return each(rows, (row, r) =>
    each(row, (share, c) =>
      share < 0.005
        ? ""
        : box(
            x(c),
            y(r),
            x(c + 1) - x(c),
            y(r + 1) - y(r),
            `cell ${kind}`,
            `fill-opacity="${px(Math.min(share, 1))}"`,
          ),
    ),
  );
};
/** A map of rows of shares in [-1, 1], blue below zero. */
export const diverging = (rows, ...place) =>
  each([-1, 1], (sign) =>
    cells(
      rows.map((row) => row.map((share) => Math.max(0, sign * share))),
      ...place,
      sign < 0 ? "q" : "k",
    ),
  );
export const label = (x, y, content, kind = "", anchor = "middle") =>
  `<text x="${px(x)}" y="${px(y)}" text-anchor="${anchor}" class="${kind}">${content}</text>`;
export const path = (points, kind, more = "") =>
  `<path d="M${points.map(([x, y]) => `${px(x)} ${px(y)}`).join("L")}" class="${kind}" ${more}/>`;
/** A curve through what y says at some places. */
export const graph = (places, x, y, kind, more) =>
  path(
    places.map((place) => [x(place), y(place)]),
    kind,
    more,
  );
export const raised = (base, exponent) =>
  `${base}<tspan dy="-0.42em" font-size="72%">${exponent}</tspan><tspan dy="0.3em">&#8203;</tspan>`;
export const signed = (value) => text(value, 0);

/** Where channel i stands on a ring: 0 on top, then clockwise. */
export const onRing = (cx, cy, radius, i, n) => [
  cx + radius * Math.sin((TAU * i) / n),
  cy - radius * Math.cos((TAU * i) / n),
];

/** Bars around a ring, moved by `steps` channels: the value of channel j is seen at j − steps. */
export const bars = (cx, cy, radius, reach, values, steps, kind, marked = -1) => {
  const n = values.length;
  const width = Math.min(15, (0.6 * TAU * radius) / n);
  return each(values, (value, j) => {
    const from = onRing(cx, cy, radius, j - steps, n);
    const to = onRing(cx, cy, radius + reach * value, j - steps, n);
    return line(...from, ...to, `bar ${j === marked ? "marked" : kind}`, `stroke-width="${px(width)}"`);
  });
};

/** A dial: a hand at `angle`, counted against the clock from the top, and the sector that it has swept. */
export const dial = (x, y, r, angle, share, kind) => {
  const swept = mod(angle, TAU);
  const at = (a, length) => [x - length * Math.sin(a), y - length * Math.cos(a)];
  const [ex, ey] = at(swept, r);
  const sector = `<path class="swept" d="M${px(x)} ${px(y)}V${px(y - r)}A${r} ${r} 0 ${swept > Math.PI ? 1 : 0} 0 ${px(ex)} ${px(ey)}Z"/>`;
  return (
    circle(x, y, r, "face") +
    sector +
    line(...at(0, r - 4), ...at(0, r + 3), "tick") +
    line(x, y, ex, ey, "hand-thin") +
    line(x, y, ...at(swept, r * share), `hand ${kind}`) +
    circle(x, y, 2.5, "pin")
  );
};
