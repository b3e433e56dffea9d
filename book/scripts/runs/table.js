/* Tables: of anything, and of all runs, one row a run with a box to choose it; its columns sort by their heads.

   Here: the columns, the rows, the same rows as CSV. Not here: which rows show (../runs.js). */

import { element } from "../svg.js";
import { fixed } from "./numbers.js";

/** A table of text and elements. `scope` is that of the first cells, "row" if they are the heads of their rows. */
export const tableOf = (columns, rows, scope = "row") => {
  const table = element("table", { class: "table" }, "<thead><tr></tr></thead><tbody></tbody>");
  const cell = (value, head) => {
    const made = head ? element("th", { scope: head }) : element("td");
    made.append(value);
    return made;
  };
  table.tHead.rows[0].append(...columns.map((name) => cell(name, "col")));
  rows.forEach(([first, ...others]) =>
    table.tBodies[0].insertRow().append(cell(first, scope), ...others.map((value) => cell(value))),
  );
  return table;
};

/** A box in which wide things scroll, also by keyboard. */
export const scrolling = (content, label) => {
  const box = element("div", { class: "runs-scroll", tabindex: "0", role: "region", "aria-label": label });
  box.append(content);
  return box;
};

const remark = ({ later, fresh }) =>
  [later && "exploratory", fresh && "this build"].filter(Boolean).join(", ");
const amount = ({ cell, score }) => `${fixed(score, cell.test)} ${cell.test.text ? "bits" : "%"}`;

/** Columns by name: the head, the cell of a run as text, what it is sorted by if that is more than the text. */
export const COLUMNS = {
  recipe: { head: "Recipe", text: (run) => run.cell.recipe },
  encoding: { head: "Encoding", text: (run) => run.cell.encoding },
  options: { head: "Options", text: (run) => run.cell.options || "none" },
  seed: { head: "Seed", text: (run) => String(run.seed) },
  score: { head: "Result", text: amount, order: (run) => `${run.cell.test.title} ${amount(run)}` },
  remark: { head: "Remark", text: remark },
  seconds: { head: "Time (s)", text: (run) => String(run.seconds) },
  date: { head: "Date", text: (run) => run.date },
};

/** Compares texts, numbers in them by their size. */
export const inOrder = new Intl.Collator("en", { numeric: true }).compare;

/** Runs by the column "score", downward by "-score"; "" leaves the order of the index. */
export const sorted = (runs, sort) => {
  const column = COLUMNS[sort.replace("-", "")];
  if (!column) return runs;
  const sign = sort.startsWith("-") ? -1 : 1;
  const order = column.order || column.text;
  return [...runs].sort((a, b) => sign * inOrder(order(a), order(b)));
};

const quoted = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);

/** Runs as CSV, numbers bare. */
export const toCsv = (runs) => {
  const head = "recipe,encoding,options,seed,result,unit,remark,seconds,date,record";
  const lines = runs.map((run) => [
    run.cell.recipe,
    run.cell.encoding,
    run.cell.options,
    run.seed,
    run.score,
    run.cell.test.unit,
    remark(run),
    run.seconds,
    run.date,
    decodeURIComponent(run.record),
  ]);
  return [head, ...lines.map((line) => line.map(quoted).join(","))].join("\n") + "\n";
};

/** The table of runs as an element, and a function that shows some runs in their order. */
export const makeTable = (runs, { choose, sort }) => {
  const heads = Object.entries(COLUMNS).map(([name, { head }]) => {
    const button = element("button", { type: "button" }, head);
    button.addEventListener("click", () => sort(name));
    return button;
  });
  const lines = runs.map((run) => {
    const named = `${run.cell.recipe}/${run.cell.label}, seed ${run.seed}`;
    run.box = element("input", { type: "checkbox", "aria-label": named });
    run.box.addEventListener("change", () => choose(run, run.box.checked));
    const link = element("a", { href: run.record, "aria-label": `JSON of ${named}` }, "JSON");
    return [run.box, ...Object.values(COLUMNS).map((column) => column.text(run)), link];
  });
  const table = tableOf(["Chosen", ...heads, "Record"], lines, null);
  const [body] = table.tBodies;
  runs.forEach((run, i) => (run.row = body.rows[i]));

  const show = (shown, chosen, by) => {
    runs.forEach((run) => (run.box.checked = chosen.has(run)));
    body.replaceChildren(...shown.map((run) => run.row));
    Object.keys(COLUMNS).forEach((name, i) => {
      const direction = { [name]: "ascending", [`-${name}`]: "descending" }[by];
      heads[i].parentNode.setAttribute("aria-sort", direction || "none");
    });
  };
  return { table, show };
};
