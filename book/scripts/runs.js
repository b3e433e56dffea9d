/* The page of runs: boxes in the table of all encodings, and what the chosen ones reached. The address keeps the
   choice. Without this file the table stands on the page, as it does on paper.

   Here: which encodings show and which are chosen. Not here: results (runs/results.js), the data, which the {runs}
   directive writes (rollpe_book.extension.runs). */

import "./runs/runs.css";

import { loadData } from "./load.js";
import { resultsOf, styled } from "./runs/results.js";
import { scrolling } from "./runs/table.js";
import { element } from "./svg.js";

const recipeOf = (cell) => cell.name.split("/")[0];

const begin = (stage, table, { first, dark, tests, cells }) => {
  let chosen = new Set(cells.filter((cell) => recipeOf(cell) === first));
  let asked = 0; // how often drawings were asked for: an answer that comes late is dropped
  let groups = []; // the chosen cells with their data
  let width = 0; // of the drawings

  const form = element("p", { class: "runs-form" }, '<label>Recipe <select name="recipe"></select></label>');
  const select = form.querySelector("select");
  const all = new Option(`All (${cells.length})`, "");
  const recipes = Object.entries(Object.groupBy(cells, recipeOf));
  select.append(all, ...recipes.map(([name, of]) => new Option(`${name} (${of.length})`, name)));
  select.value = first;
  const button = (words, act) => {
    const made = element("button", { type: "button" }, words);
    made.addEventListener("click", act);
    form.append(made);
  };
  const status = element("output", { "aria-live": "polite" });
  const results = element("div", { class: "runs-results" });

  // A box in each row of the table
  table.tHead.rows[0].prepend(element("th", { scope: "col", class: "chosen" }, "Chosen"));
  cells.forEach((cell, i) => {
    cell.row = table.tBodies[0].rows[i];
    cell.box = element("input", { type: "checkbox", "aria-label": cell.name });
    cell.row.insertCell(0).append(cell.box);
    cell.box.addEventListener("change", () => {
      chosen[cell.box.checked ? "add" : "delete"](cell);
      rechosen();
    });
  });
  const shown = () => cells.filter((cell) => !select.value || recipeOf(cell) === select.value);
  button("Choose all shown", () => {
    shown().forEach((cell) => chosen.add(cell));
    rechosen();
  });
  button("Clear the choice", () => {
    chosen.clear();
    rechosen();
  });

  const draw = () => {
    width = results.clientWidth;
    const sections = Object.entries(tests).flatMap(([name, test]) => {
      const of = groups.filter((group) => group.test === name);
      return of.length ? [resultsOf(test, styled(test, of), width)] : [];
    });
    if (!sections.length) sections.push(element("p", {}, "Nothing is chosen. Choose encodings in the table."));
    results.replaceChildren(...sections);
    results.removeAttribute("aria-busy");
  };
  /** Fetch what the chosen cells need, then draw. */
  const load = async () => {
    const ticket = (asked += 1);
    results.setAttribute("aria-busy", "true");
    try {
      const wanted = cells.filter((cell) => chosen.has(cell));
      const loaded = await Promise.all(wanted.map(async (cell) => ({ ...cell, ...(await loadData(cell.file)) })));
      if (ticket !== asked) return;
      groups = loaded;
      draw();
    } catch (error) {
      results.replaceChildren(element("p", {}, `The data of these runs are not there: ${error.message}`));
    }
  };
  const update = () => {
    const now = shown();
    cells.forEach((cell) => {
      cell.row.classList.toggle("runs-left-out", !now.includes(cell));
      cell.box.checked = chosen.has(cell);
    });
    status.textContent = `${chosen.size} of ${cells.length} chosen`;
  };
  const rechosen = () => {
    const names = [...chosen].map((cell) => ["run", cell.name]);
    const view = [["recipe", select.value], ...(names.length ? names : [["run", "none"]])];
    history.replaceState(null, "", `#${new URLSearchParams(view)}`);
    update();
    load();
  };
  /** Take the choice from the address; what it names and is not there is left out. Older pages named seeds as well. */
  const restore = () => {
    const view = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    if (view.has("run")) {
      const names = view.getAll("run").map((name) => name.replace(/:[\d.]+$/, ""));
      chosen = new Set(cells.filter((cell) => names.includes(cell.name)));
      const recipe = view.get("recipe") || "";
      select.value = cells.some((cell) => recipeOf(cell) === recipe) ? recipe : "";
    }
    update();
    load();
  };

  select.addEventListener("change", update);
  addEventListener("hashchange", restore);
  const colors = Object.entries(dark).flatMap(([light, pale]) =>
    ["fill", "stroke"].map(
      (what) => `html[data-theme="dark"] .runs-stage [${what}="${light}"] { ${what}: ${pale}; }`,
    ),
  );
  document.head.append(element("style", {}, colors.join("\n")));
  stage.append(form, status, scrolling(table, "All encodings"), results);
  stage.hidden = false;
  restore();
  new ResizeObserver(() => {
    if (groups.length && results.clientWidth && results.clientWidth !== width) draw();
  }).observe(results);
};

loadData("runs").then((index) =>
  begin(document.querySelector(".runs-stage"), document.querySelector("table.runs"), index),
);
