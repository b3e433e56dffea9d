/* The page of runs: the table of all runs with its filters, and what the chosen runs reached. The address keeps the
   view. Without this file the table of means stands on the page, as it does on paper.

   Here: the state, and what follows from it. Not here: the table (runs/table.js), results (runs/results.js), the
   data, which the {runs} directive writes (rollpe_book.extension.runs). */

import "./runs/runs.css";

import { loadData } from "./load.js";
import { FILTERS, read, write } from "./runs/address.js";
import { scrolling, SHARES } from "./runs/charts.js";
import { groupsOf, resultsOf } from "./runs/results.js";
import { makeTable, sorted, toCsv } from "./runs/table.js";
import { element } from "./svg.js";

const WORDS = { recipe: "Recipe", encoding: "Encoding", options: "Options", seed: "Seed" };
const EMPTY = { recipe: "", encoding: "", options: "", seed: "", sort: "", by: "", share: "" };

const begin = (stage, { first, quantiles, dark, tests, cells }) => {
  Object.entries(tests).forEach(([name, test], place) => Object.assign(test, { name, place }));
  const runs = cells.flatMap((cell) => {
    cell.name = `${cell.recipe}/${cell.encoding}${cell.options && `@${cell.options}`}`; // as rollpe compare takes it
    return cell.runs.map((run) => {
      const record = `${cell.folder}/seed-${run.seed}.json`;
      return Object.assign(run, { cell, record, test: tests[cell.test] });
    });
  });
  const valueOf = {
    recipe: (run) => run.cell.recipe,
    encoding: (run) => run.cell.encoding,
    options: (run) => run.cell.options || "none",
    seed: (run) => String(run.seed),
  };
  let state = { ...EMPTY, recipe: first };
  let chosen = new Set(runs.filter((run) => run.cell.recipe === first));
  let asked = 0; // how often drawings were asked for: an answer that comes late is dropped
  let groups = []; // the cells of the chosen runs, with their loaded data
  const whole = new Set(); // tests of which all classes show

  // The form
  const form = element("form", { class: "runs-form", "aria-label": "Filter the runs" });
  const select = (name, words, options) => {
    const label = element("label", {}, `${words} <select name="${name}"></select>`);
    options.forEach(([value, text]) => label.lastChild.add(new Option(text, value)));
    return label;
  };
  const selects = Object.fromEntries(
    FILTERS.map((name) => {
      const values = [...new Set(runs.map(valueOf[name]))];
      values.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      const label = select(name, WORDS[name], [["", "All"], ...values.map((value) => [value, value])]);
      form.append(label);
      return [name, label.lastChild];
    }),
  );
  form.append(element("button", { type: "reset" }, "Show all"));
  const status = element("output", { "aria-live": "polite" });
  const button = (words, act) => {
    const made = element("button", { type: "button" }, words);
    made.addEventListener("click", act);
    return made;
  };
  const passes = (run, but) =>
    FILTERS.every((name) => name === but || !state[name] || valueOf[name](run) === state[name]);
  const shown = () =>
    sorted(
      runs.filter((run) => passes(run)),
      state.sort,
    );

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
    chosen = new Set();
    rechosen();
  });
  const download = button("Download the table (CSV)", () => {
    const file = new Blob([toCsv(shown())], { type: "text/csv" });
    const link = element("a", { href: URL.createObjectURL(file), download: "runs.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  const actions = element("p", { class: "runs-actions" });
  actions.append(choose, clear, download);

  // How agreement is shown, of all tests alike
  const agreement = {
    by: select("by", "Rows of agreement", [
      ["", "encodings"],
      ["runs", "each run"],
    ]),
    share: select("share", "Agreement as", [
      ["", SHARES.alike],
      ["both", SHARES.both],
      ["phi", SHARES.phi],
    ]),
  };
  Object.entries(agreement).forEach(([name, { lastChild }]) =>
    lastChild.addEventListener("change", () => {
      state[name] = lastChild.value;
      keep();
      draw();
    }),
  );
  const views = element("div", { class: "runs-form", role: "group", "aria-label": "How agreement is shown" });
  views.append(...Object.values(agreement));
  const results = element("div", { class: "runs-results" });
  stage.replaceChildren(form, status, scrolling(table, "All runs"), actions, views, results);
  stage.hidden = false;

  const draw = () => {
    const width = Math.floor(results.clientWidth);
    if (!width) return;
    const share = state.share || "alike";
    const sections = Object.values(tests).flatMap((test) => {
      const of = groups.filter((group) => group.cell.test === test.name);
      const toggle = () => {
        whole[whole.has(test) ? "delete" : "add"](test);
        draw();
        results.querySelector(`[data-test="${test.name}"] [data-all]`).focus();
      };
      const view = { quantiles, width, share, eachRun: state.by === "runs", all: whole.has(test), toggle };
      return of.length ? [resultsOf(test, of, view)] : [];
    });
    if (sections.length > 1) {
      const words =
        "Runs on different test sets are drawn apart; accuracy and bits per character are different measures.";
      sections.unshift(element("p", { class: "runs-note" }, words));
    }
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
      groups = groupsOf(wanted, loaded, chosen);
      draw();
    } catch (error) {
      results.replaceChildren(element("p", {}, `The data of these runs are not there: ${error.message}`));
    }
  };

  const update = () => {
    FILTERS.forEach((name) => {
      const others = runs.filter((run) => passes(run, name));
      [...selects[name].options].forEach((option) => {
        const number = others.filter((run) => !option.value || valueOf[name](run) === option.value).length;
        option.text = `${option.value || "All"} (${number})`;
      });
      selects[name].value = state[name];
    });
    Object.entries(agreement).forEach(([name, { lastChild }]) => (lastChild.value = state[name]));
    const now = shown();
    show(now, chosen, state.sort);
    choose.textContent = `Choose the ${now.length} shown`;
    choose.disabled = now.every((run) => chosen.has(run));
    clear.disabled = !chosen.size;
    status.textContent = `${now.length} of ${runs.length} runs shown, ${chosen.size} chosen`;
  };

  const keep = () => {
    const seeds = {};
    runs.filter((run) => chosen.has(run)).forEach((run) => (seeds[run.cell.name] ||= []).push(run.seed));
    history.replaceState(null, "", `#${write({ ...state, chosen: seeds })}`);
  };
  const listed = () => {
    keep();
    update();
  };
  const rechosen = () => {
    listed();
    load();
  };
  /** Take the view from the address; what it names and is not there is left out. */
  const restore = () => {
    const kept = read(location.hash.slice(1));
    if (!kept) return;
    const known = (name) => runs.some((run) => valueOf[name](run) === kept[name]);
    const { chosen: seeds, ...words } = kept;
    FILTERS.filter((name) => !known(name)).forEach((name) => (words[name] = ""));
    state = { ...EMPTY, ...words };
    chosen = new Set(runs.filter((run) => seeds[run.cell.name]?.includes(run.seed)));
  };

  form.addEventListener("change", () => {
    FILTERS.forEach((name) => (state[name] = selects[name].value));
    listed();
  });
  form.addEventListener("reset", () => {
    FILTERS.forEach((name) => (state[name] = ""));
    listed();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => {
    restore();
    update();
    load();
  });
  const colors = Object.entries(dark).flatMap(([light, pale]) =>
    ["fill", "stroke"].map(
      (what) => `html[data-theme="dark"] .runs-stage [${what}="${light}"] { ${what}: ${pale}; }`,
    ),
  );
  document.head.append(element("style", {}, colors.join("\n")));
  let width = 0;
  new ResizeObserver(() => {
    if (results.clientWidth === width) return;
    width = results.clientWidth;
    draw();
  }).observe(results);
  restore();
  update();
  load();
};

const still = document.querySelector("table.runs");
const stage = document.querySelector(".runs-stage");
loadData("runs").then((index) => {
  still.classList.add("runs-still");
  begin(stage, index);
});
