/* What the chosen encodings reached on one test set: means, drawings, records, commands.

   Here: groups of runs and their part of the page. A group is a chosen cell with its data, which
   rollpe_book.extension.runs computes, and how it is drawn. Not here: drawings (charts.js), which cells are chosen
   (../runs.js). */

import { element } from "../svg.js";
import { curves, finals, parts, swatch } from "./charts.js";
import { fixed, scrolling, tableOf } from "./table.js";

const DASHES = [null, "7 3", "2 2.5", "10 3 2 3", "4 2", "1 3"];
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "wye"];

/** Groups of one test set, the best mean first. Those of one color differ in dashes and symbols. */
export const styled = (test, groups) => {
  const several = new Set(groups.map((group) => group.name.split("/")[0])).size > 1;
  const made = groups.map((group) => {
    const style = groups.filter((other) => other.color === group.color).indexOf(group);
    return {
      ...group,
      label: several ? `${group.name.split("/")[0]}/${group.label}` : group.label,
      several,
      dash: DASHES[style % DASHES.length],
      symbol: SYMBOLS[style % SYMBOLS.length],
    };
  });
  return made.sort((a, b) => (test.text ? a.mean - b.mean : b.mean - a.mean));
};

const means = (test, groups) => {
  const rows = groups.map((group) => {
    const name = element("span");
    name.append(swatch(group), " ", element("a", { href: group.page }, group.label));
    const seeds = group.runs.map(
      ({ record, seed, remark }) => `<a href="${record}">${seed}${remark && ` (${remark})`}</a>`,
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
  if (groups.length === 2 && !groups[0].several) {
    const compare = element("p", {}, "The difference of the two, from all their runs: <code></code>");
    compare.lastChild.textContent = `rollpe compare ${groups[0].name} ${groups[1].name}`;
    made.append(compare);
  }
  return made;
};

/** The part of the page for the groups of one test set. */
export const resultsOf = (test, groups, width) => {
  const made = element("section", {}, `<h2>${test.title}</h2>`);
  if (groups[0].several) {
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
