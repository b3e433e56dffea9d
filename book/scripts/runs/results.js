/* What the chosen runs of one test set reached: means, drawings, records, commands.

   Here: groups of runs and their part of the page. A group is the chosen runs of a cell, with their data, and how it
   is drawn. Not here: drawings (charts.js), which runs are chosen (../runs.js). */

import { element } from "../svg.js";
import { agreements, curves, finals, parts, scrolling, summaryOf, swatch, tableOf } from "./charts.js";
import { unpack } from "./numbers.js";

const DASHES = [null, "7 3", "2 2.5", "10 3 2 3", "4 2", "1 3"];
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "wye"];

/** The chosen runs by cell. Of one color, which options share, groups differ in dashes and symbols. */
export const groupsOf = (cells, loaded, chosen) =>
  cells.map((cell, i) => {
    const beside = cells.filter((other) => other.test === cell.test);
    const style = beside.filter((other) => other.color === cell.color).indexOf(cell);
    const several = new Set(beside.map((other) => other.recipe)).size > 1;
    const runs = cell.runs.map((run, r) => ({ run, ...loaded[i][r] })).filter(({ run }) => chosen.has(run));
    return {
      cell,
      label: several ? `${cell.recipe}/${cell.label}` : cell.label,
      color: cell.color,
      dash: DASHES[style % DASHES.length],
      symbol: SYMBOLS[style % SYMBOLS.length],
      runs: runs.map(({ run, correct, ...data }) => ({ ...run, ...data, bits: unpack(correct) })),
    };
  });

const means = (test, groups, quantiles) => {
  const rows = groups.map((group) => {
    const name = element("span");
    name.append(swatch(group), " ", element("a", { href: group.cell.page }, group.label));
    const seeds = group.runs.map(
      ({ record, seed, later }) => `<a href="${record}">${seed}${later ? " (exploratory)" : ""}</a>`,
    );
    return [name, ...summaryOf(test, group, quantiles), element("span", {}, seeds.join(", "))];
  });
  const measure = test.text ? "bits per character ± SD" : "accuracy ± SD (%)";
  const table = tableOf(["Encoding", "n", measure, "95 % interval", "Records of seeds"], rows);
  table.classList.add("runs-summary");
  return scrolling(table, `${test.title}: means of the chosen runs`);
};

/** The command of every run, and the one that compares two encodings. */
const commands = (test, groups) => {
  const made = element(
    "details",
    { class: "runs-commands" },
    "<summary>Commands that repeat these runs</summary>",
  );
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

/** The part of the page for the groups of one test set.

    eachRun: agreement of runs, not of groups; share: which one; all: results of every class; toggle: changes that. */
export const resultsOf = (test, groups, { quantiles, width, share, eachRun, all, toggle }) => {
  const made = element("section", { "data-test": test.name }, `<h2>${test.title}</h2>`);
  if (new Set(groups.map((group) => group.cell.recipe)).size > 1) {
    const words = "These runs differ in their recipes, hence in more than their encodings.";
    made.append(element("p", { class: "runs-note" }, words));
  }
  const single = groups.flatMap((group) =>
    group.runs.map((run) => ({ ...group, label: `${group.label}, seed ${run.seed}`, runs: [run] })),
  );
  made.append(
    means(test, groups, quantiles),
    finals(test, groups, width, quantiles),
    curves(test, groups, width),
    parts(test, groups, width, all, toggle),
    agreements(test, eachRun ? single : groups, width, share),
    commands(test, groups),
  );
  return made;
};
