/* The chooser of encodings: a form above the table of what decides between them. Answers hide the rows that do not
   fit, list the others with their code, and say why not; the address keeps them. Without this file the table
   stands complete.

   Here: the form, and which rows meet the answers. Not here: facts, reasons and code, which the {chooser} directive
   (rollpe.book.chooser) takes from the library, and numbers, which are read off the table. */

import { each, element } from "./svg.js";

const stage = document.querySelector(".chooser-stage");
const { facts, times, results } = JSON.parse(stage.dataset.given);
const table = document.querySelector("table.chooser");
const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
const rows = new Map([...table.tBodies[0].rows].map((row) => [row.cells[0].textContent.trim(), row]));

const AXES = { 1: "a sequence", 2: "an image", 3: "a video" };
const NEEDS = {
  real: "positions between whole numbers",
  sizes: "other sizes at test time than in training",
  cached: "generation from cached keys",
  flash: "flash attention: no mask on the scores",
};
const LIMITS = [1.05, 1.1, 1.25, 1.5];

const option = (type, name, value, words) =>
  `<label><input type="${type}" name="${name}" value="${value}"> ${words}</label>`;
const form = element(
  "form",
  { class: "chooser-form", "aria-label": "Choose an encoding" },
  `<fieldset><legend>The tokens are those of</legend>${each(Object.entries(AXES), ([value, words]) => option("radio", "axes", value, words))}</fieldset>` +
    `<fieldset><legend>Needed</legend>${each(Object.entries(NEEDS), ([name, words]) => option("checkbox", name, "yes", words))}</fieldset>` +
    `<p><label>Training step, against one without positions: <select name="cost"><option value="">any time</option>${each(LIMITS, (limit) => `<option value="${limit}">at most ${limit}×</option>`)}</select></label> <button type="reset">Show all</button></p>`,
);
const status = element("output", { "aria-live": "polite" });
const fitting = element("ul", { class: "chooser-fits" });
const others = element("details", {}, "<summary></summary><ul></ul>");
stage.replaceChildren(form, status, fitting, others);
stage.hidden = false;

const answers = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));

/** An encoding under the answers: its code, notes and results, and why not to take it. */
const judge = (name, given) => {
  const cells = rows.get(name).cells;
  const tried = given.axes ? [given.axes] : ["2", "1", "3"];
  const axes = tried.find((one) => !facts[name][one].against.axes) || tried[0];
  const { code, against, notes } = facts[name][axes];
  const asked = [
    "axes",
    given.real && "of_fractions",
    given.sizes && "larger_grid",
    given.cached && "cached",
    given.flash && "fused",
    given.flash && given.cached && "fused_decoding",
  ];
  const reasons = asked.filter((trial) => against[trial]).map((trial) => against[trial]);
  times.forEach((column) => {
    const time = parseFloat(cells[column].textContent);
    if (!given.cost || time <= Number(given.cost)) return;
    reasons.push(time ? `a training step takes ${time.toFixed(2)}×` : "its time is not measured");
  });
  const { columns, rising } = results[axes];
  const first = columns[given.sizes ? 1 : 0];
  const score = first ? parseFloat(cells[first].textContent) : NaN;
  const rank = given.axes && !Number.isNaN(score) ? (rising ? -score : score) : Infinity;
  return { name, code, notes, columns, rank, reason: reasons[0] };
};

/** What was measured of an encoding, under the heads of its columns, with links to the runs. */
const measured = (name, columns) => {
  const { cells } = rows.get(name);
  const known = [...columns, ...times].filter((column) => parseFloat(cells[column].textContent));
  const spans = known.map((column) => {
    const span = element("span", {}, `${heads[column]}: ${cells[column].querySelector("p").innerHTML}`);
    span
      .querySelectorAll("a")
      .forEach((link) => ["data-note", "aria-haspopup"].map((more) => link.removeAttribute(more)));
    return span;
  });
  return known.some((column) => columns.includes(column))
    ? spans
    : [element("span", {}, "not measured"), ...spans];
};

const item = ({ name, code, notes, columns }) => {
  const made = element(
    "li",
    {},
    `<p><a href="#${name}"><code>${name}</code></a> </p><pre><code></code></pre>`,
  );
  made.firstChild.append(...measured(name, columns));
  made.querySelector("pre code").textContent = [code, ...notes].join("  # ");
  return made;
};

const update = () => {
  const given = answers();
  const answered = Object.keys(given).length > 0;
  const judged = [...rows.keys()].map((name) => judge(name, given));
  const fit = judged.filter(({ reason }) => !answered || !reason);
  const not = judged.filter((one) => !fit.includes(one));
  judged.forEach((one) => (rows.get(one.name).hidden = not.includes(one)));
  fit.sort((a, b) => (a.rank === b.rank ? 0 : a.rank - b.rank));
  fitting.replaceChildren(...(answered ? fit.map(item) : []));
  others.hidden = !not.length;
  others.firstChild.textContent = `Why not the other ${not.length}`;
  others.lastChild.innerHTML = each(not, ({ name, reason }) => `<li><code>${name}</code> ${reason}</li>`);
  const { columns, recipe } = results[given.axes] || {};
  const order = columns?.length
    ? ` Best mean first: ${heads[columns[given.sizes ? 1 : 0]]}, recipe ${recipe}.`
    : "";
  status.textContent = answered ? `${fit.length} of ${rows.size} encodings fit.${order}` : "";
};

/** Take the answers from the address; an address of a place on the page leaves them. */
const restore = () => {
  const kept = new URLSearchParams(location.hash.slice(1));
  if (![...kept.keys()].some((name) => form.elements[name])) return;
  [...form.elements].forEach((input) => {
    if (input.type === "radio" || input.type === "checkbox")
      input.checked = kept.get(input.name) === input.value;
    else if (input.name) input.value = kept.get(input.name) || "";
  });
};
const keep = () => {
  update();
  history.replaceState(null, "", `#${new URLSearchParams(answers())}`);
};

form.addEventListener("change", keep);
form.addEventListener("reset", () => setTimeout(keep));
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", () => {
  restore();
  update();
});
restore();
update();
