/* The table of runs: one row a run, with a box to choose it; columns sort by their heads.

   Here: the columns, the rows, the same rows as CSV. Not here: which rows show (../runs.js). */

import { element } from "../svg.js";

const remark = ({ later, fresh }) =>
  [later && "exploratory", fresh && "this build"].filter(Boolean).join(", ");
const amount = ({ test, score }) => (test.text ? `${score.toFixed(3)} bits` : `${score.toFixed(2)} %`);

/** Columns by name: the head, the cell of a run as text, what it is sorted by. */
export const COLUMNS = {
  recipe: { head: "Recipe", text: (run) => run.cell.recipe },
  encoding: { head: "Encoding", text: (run) => run.cell.encoding },
  options: { head: "Options", text: (run) => run.cell.options || "–" },
  seed: { head: "Seed", text: (run) => run.seed, order: (run) => [run.seed] },
  score: { head: "Result", text: amount, order: (run) => [run.test.place, run.score] },
  remark: { head: "Remark", text: remark },
  seconds: { head: "Time (s)", text: (run) => run.seconds, order: (run) => [run.seconds] },
  date: { head: "Date", text: (run) => run.date },
};
const NUMBERS = ["seed", "score", "seconds"];

/** Runs by the column "score", downward by "-score"; "" leaves the order of the index. */
export const sorted = (runs, sort) => {
  const column = COLUMNS[sort.replace("-", "")];
  if (!column) return runs;
  const sign = sort.startsWith("-") ? -1 : 1;
  const order = column.order || ((run) => [column.text(run)]);
  const compare = (a, b) =>
    a.reduce((found, value, i) => found || (value < b[i] ? -1 : value > b[i] ? 1 : 0), 0);
  return [...runs].sort((a, b) => sign * compare(order(a), order(b)));
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
    run.test.text ? "bits per character" : "% correct",
    remark(run),
    run.seconds,
    run.date,
    decodeURIComponent(run.record),
  ]);
  return [head, ...lines.map((line) => line.map(quoted).join(","))].join("\n") + "\n";
};

/** The table as an element, and a function that shows some runs in their order. */
export const makeTable = (runs, { choose, sort }) => {
  const table = element("table", { class: "table" }, "<thead><tr></tr></thead><tbody></tbody>");
  const head = table.tHead.rows[0];
  head.append(element("th", { scope: "col" }, "Chosen"));
  const heads = Object.entries(COLUMNS).map(([name, column]) => {
    const cell = element("th", { scope: "col" }, `<button type="button">${column.head}</button>`);
    cell.firstChild.addEventListener("click", () => sort(name));
    head.append(cell);
    return [name, cell];
  });
  head.append(element("th", { scope: "col" }, "Record"));

  runs.forEach((run) => {
    run.row = element("tr");
    const named = `${run.cell.recipe}/${run.cell.label}, seed ${run.seed}`;
    run.box = element("input", { type: "checkbox", "aria-label": named });
    run.box.addEventListener("change", () => choose(run, run.box.checked));
    const first = element("td");
    first.append(run.box);
    const cells = Object.entries(COLUMNS).map(([name, column]) => {
      const cell = element("td", NUMBERS.includes(name) ? { class: "text-right" } : {});
      cell.textContent = column.text(run);
      return cell;
    });
    const link = element("td", {}, `<a href="${run.record}">JSON</a>`);
    link.firstChild.setAttribute("aria-label", `JSON of ${named}`);
    run.row.append(first, ...cells, link);
  });

  const show = (shown, chosen, by) => {
    runs.forEach((run) => (run.box.checked = chosen.has(run)));
    table.tBodies[0].replaceChildren(...shown.map((run) => run.row));
    heads.forEach(([name, cell]) => {
      const direction = { [name]: "ascending", [`-${name}`]: "descending" }[by];
      if (direction) cell.setAttribute("aria-sort", direction);
      else cell.removeAttribute("aria-sort");
    });
  };
  return { table, show };
};
