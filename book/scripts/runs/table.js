/* Tables of results, and the box in which they scroll. */

import { element, text } from "../svg.js";

/** A result on a test set as text; what was not measured is a dash. */
export const fixed = (value, test) => (Number.isFinite(value) ? text(value, test.text ? 3 : 2) : "–");

/** A table of text and elements; the first cells are the heads of their rows. */
export const tableOf = (columns, rows) => {
  const table = element("table", { class: "table" }, "<thead><tr></tr></thead><tbody></tbody>");
  const cell = (value, scope) => {
    const made = scope ? element("th", { scope }) : element("td");
    made.append(value);
    return made;
  };
  table.tHead.rows[0].append(...columns.map((name) => cell(name, "col")));
  rows.forEach(([first, ...others]) =>
    table.tBodies[0].insertRow().append(cell(first, "row"), ...others.map((value) => cell(value))),
  );
  return table;
};

/** A box in which wide things scroll, also by keyboard. */
export const scrolling = (content, label) => {
  const box = element("div", { class: "runs-scroll", tabindex: "0", role: "region", "aria-label": label });
  box.append(content);
  return box;
};
