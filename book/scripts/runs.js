/* The page of runs: the table of all runs with its filters, and what the chosen runs reached. The address keeps the
   view. Without this file the table of means stands on the page, as it does on paper.

   Here: the state, and what follows from it. Not here: the table (runs/table.js), results (runs/results.js), the
   data, which the {runs} directive writes (rollpe_book.extension.runs). */

import "./runs/runs.css";

import { loadData } from "./load.js";
import { FILTERS, read, write } from "./runs/address.js";
import { groupsOf, resultsOf } from "./runs/results.js";
import { COLUMNS, inOrder, makeTable, scrolling, sorted, toCsv } from "./runs/table.js";
import { element } from "./svg.js";

const button = (words, act) => {
  const made = element("button", { type: "button" }, words);
  made.addEventListener("click", act);
  return made;
};

const begin = (stage, { first, quantiles, dark, tests, cells }) => {
  const runs = cells.flatMap((cell) => {
    cell.name = `${cell.recipe}/${cell.encoding}${cell.options && `@${cell.options}`}`; // as rollpe compare takes it
    cell.test = tests[cell.test];
    return cell.runs.map((run) =>
      Object.assign(run, { cell, record: `${cell.folder}/seed-${run.seed}.json` }),
    );
  });
  let state = { recipe: first, encoding: "", options: "", seed: "", sort: "" };
  let chosen = new Set(runs.filter((run) => run.cell.recipe === first));
  let asked = 0; // how often drawings were asked for: an answer that comes late is dropped
  let groups = []; // the cells of the chosen runs, with their loaded data
  let width = 0; // of the drawings

  // The form
  const form = element("form", { class: "runs-form", "aria-label": "Filter the runs" });
  const selects = FILTERS.map((name) => {
    const label = element("label", {}, `${COLUMNS[name].head} <select name="${name}"></select>`);
    const values = [...new Set(runs.map(COLUMNS[name].text))].sort(inOrder);
    label.lastChild.append(new Option("All", ""), ...values.map((value) => new Option(value, value)));
    form.append(label);
    return label.lastChild;
  });
  const all = button("Show all", () => {
    FILTERS.forEach((name) => (state[name] = ""));
    listed();
  });
  form.append(all);
  const status = element("output", { "aria-live": "polite" });
  /** The runs that pass the filters, or those beside one. */
  const filtered = (but) => {
    const set = FILTERS.filter((name) => name !== but && state[name]);
    return runs.filter((run) => set.every((name) => COLUMNS[name].text(run) === state[name]));
  };
  const shown = () => sorted(filtered(), state.sort);

  const { table, show } = makeTable(runs, {
    choose: (run, on) => {
      chosen[on ? "add" : "delete"](run);
      rechosen();
    },
    sort: (name) => {
      state.sort = state.sort === name ? `-${name}` : state.sort === `-${name}` ? "" : name;
      listed();
    },
  });
  const choose = button("", () => {
    shown().forEach((run) => chosen.add(run));
    rechosen();
  });
  const clear = button("Clear the choice", () => {
    chosen.clear();
    rechosen();
  });
  const download = button("Download the table (CSV)", () => {
    const href = `data:text/csv;charset=utf-8,${encodeURIComponent(toCsv(shown()))}`;
    element("a", { href, download: "runs.csv" }).click();
  });
  const actions = element("p", { class: "runs-actions" });
  actions.append(choose, clear, download);
  const results = element("div", { class: "runs-results" });
  stage.replaceChildren(form, status, scrolling(table, "All runs"), actions, results);
  stage.hidden = false;

  const draw = () => {
    width = results.clientWidth;
    const sections = Object.values(tests).flatMap((test) => {
      const of = groups.filter((group) => group.cell.test === test);
      return of.length ? [resultsOf(test, of, width)] : [];
    });
    if (!sections.length) sections.push(element("p", {}, "No run is chosen. Choose some in the table."));
    const open = [...results.querySelectorAll("details")].map((details) => details.open);
    results.replaceChildren(...sections);
    const folded = results.querySelectorAll("details");
    if (folded.length === open.length) folded.forEach((details, i) => (details.open = open[i]));
    results.removeAttribute("aria-busy");
  };

  /** Fetch what the chosen cells need, then draw. */
  const load = async () => {
    const ticket = (asked += 1);
    results.setAttribute("aria-busy", "true");
    const wanted = cells.filter((cell) => cell.runs.some((run) => chosen.has(run)));
    try {
      const loaded = await Promise.all(wanted.map((cell) => loadData(cell.file)));
      if (ticket !== asked) return;
      groups = groupsOf(wanted, loaded, chosen, quantiles);
      draw();
    } catch (error) {
      results.replaceChildren(element("p", {}, `The data of these runs are not there: ${error.message}`));
    }
  };

  const update = () => {
    selects.forEach((select) => {
      const { text } = COLUMNS[select.name];
      const others = filtered(select.name);
      [...select.options].forEach((option) => {
        const number = others.filter((run) => !option.value || text(run) === option.value).length;
        option.text = `${option.value || "All"} (${number})`;
      });
      select.value = state[select.name];
    });
    const now = shown();
    show(now, chosen, state.sort);
    choose.textContent = `Choose the ${now.length} shown`;
    choose.disabled = now.every((run) => chosen.has(run));
    clear.disabled = !chosen.size;
    status.textContent = `${now.length} of ${runs.length} runs shown, ${chosen.size} chosen`;
  };
  const listed = () => {
    const seeds = {};
    runs.filter((run) => chosen.has(run)).forEach((run) => (seeds[run.cell.name] ||= []).push(run.seed));
    history.replaceState(null, "", `#${write({ ...state, chosen: seeds })}`);
    update();
  };
  const rechosen = () => {
    listed();
    load();
  };
  /** Take the view from the address; what it names and is not there is left out. */
  const restore = () => {
    const kept = read(location.hash.slice(1));
    if (kept) {
      const { chosen: seeds, ...words } = kept;
      FILTERS.forEach((name) => {
        if (!runs.some((run) => COLUMNS[name].text(run) === words[name])) words[name] = "";
      });
      state = words;
      chosen = new Set(runs.filter((run) => seeds[run.cell.name]?.includes(run.seed)));
    }
    update();
    load();
  };

  form.addEventListener("change", ({ target }) => {
    state[target.name] = target.value;
    listed();
  });
  addEventListener("hashchange", restore);
  const colors = Object.entries(dark).flatMap(([light, pale]) =>
    ["fill", "stroke"].map(
      (what) => `html[data-theme="dark"] .runs-stage [${what}="${light}"] { ${what}: ${pale}; }`,
    ),
  );
  document.head.append(element("style", {}, colors.join("\n")));
  restore();
  new ResizeObserver(() => {
    if (groups.length && results.clientWidth && results.clientWidth !== width) draw();
  }).observe(results);
};

const still = document.querySelector("table.runs");
const stage = document.querySelector(".runs-stage");
loadData("runs").then((index) => {
  still.classList.add("runs-still");
  begin(stage, index);
});
