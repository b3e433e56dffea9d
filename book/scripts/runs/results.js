/* What the chosen runs of one test set reached: means, drawings, records, commands.

   Here: groups of runs and their part of the page. A group is the chosen runs of a cell, with their data, their mean,
   and how it is drawn. Not here: drawings (charts.js), which runs are chosen (../runs.js). */

import { element } from "../svg.js";
import { curves, finals, parts, swatch } from "./charts.js";
import { fixed, summarize } from "./numbers.js";
import { scrolling, tableOf } from "./table.js";

const DASHES = [null, "7 3", "2 2.5", "10 3 2 3", "4 2", "1 3"];
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "wye"];

/** The chosen runs by cell, the best mean first. Options share a color; their groups differ in dashes and symbols. */
export const groupsOf = (cells, loaded, chosen, quantiles) => {
  const groups = cells.map((cell, i) => {
    const beside = cells.filter((other) => other.test === cell.test);
    const style = beside.filter((other) => other.color === cell.color).indexOf(cell);
    const several = new Set(beside.map((other) => other.recipe)).size > 1;
    const runs = cell.runs.flatMap((run, r) => (chosen.has(run) ? [{ ...run, ...loaded[i][r] }] : []));
    const scores = runs.map((run) => run.score);
    return {
      cell,
      label: several ? `${cell.recipe}/${cell.label}` : cell.label,
      color: cell.color,
      dash: DASHES[style % DASHES.length],
      symbol: SYMBOLS[style % SYMBOLS.length],
      runs,
      ...summarize(scores, quantiles),
    };
  });
  const rank = ({ cell, mean }) => (cell.test.text ? mean : -mean);
  return groups.sort((a, b) => rank(a) - rank(b));
};

const means = (test, groups) => {
  const rows = groups.map((group) => {
    const name = element("span");
    name.append(swatch(group), " ", element("a", { href: group.cell.page }, group.label));
    const seeds = group.runs.map(
      ({ record, seed, later }) => `<a href="${record}">${seed}${later ? " (exploratory)" : ""}</a>`,
    );
    const [mean, sd, low, high] = ["mean", "sd", "low", "high"].map((key) => fixed(group[key], test));
    const found = group.n > 1 ? [`${mean} ± ${sd}`, `${low} to ${high}`] : [mean, "–"];
    return [name, group.n, ...found, element("span", {}, seeds.join(", "))];
  });
  const measure = `${test.measure} ± SD (${test.unit})`;
  const table = tableOf(["Encoding", "n", measure, "95 % interval", "Records of seeds"], rows);
  table.classList.add("runs-summary");
  return scrolling(table, `${test.title}: means of the chosen runs`);
};

/** The command of every run, and the one that compares two encodings. */
const commands = (test, groups) => {
  const summary = "<summary>Commands that repeat these runs</summary>";
  const made = element("details", { class: "runs-commands" }, summary);
  const lines = element("pre");
  lines.textContent = groups.flatMap((group) => group.runs.map((run) => run.command)).join("\n");
  made.append(scrolling(lines, `${test.title}: commands`));
  const [one, other] = groups.map((group) => group.cell);
  if (groups.length === 2 && one.recipe === other.recipe) {
    const compare = element("p", {}, "The difference of the two, from all their runs: <code></code>");
    compare.lastChild.textContent = `rollpe compare ${one.name} ${other.name}`;
    made.append(compare);
  }
  return made;
};

/** The part of the page for the groups of one test set. */
export const resultsOf = (test, groups, width) => {
  const made = element("section", {}, `<h2>${test.title}</h2>`);
  if (new Set(groups.map((group) => group.cell.recipe)).size > 1) {
    const words = "These runs differ in their recipes, hence in more than their encodings.";
    made.append(element("p", { class: "runs-note" }, words));
  }
  made.append(
    means(test, groups),
    finals(test, groups, width),
    curves(test, groups, width),
    parts(test, groups, width),
    commands(test, groups),
  );
  return made;
};
