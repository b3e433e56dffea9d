import { chosen, logWeights, range } from "../formulas.js";
import { pageAt } from "../load.js";
import { saveButtons } from "../save.js";
import { box, clamp, diverging, each, graph, label, line, signed } from "../svg.js";

const BRIGHT = 3; // a map has its full color at e^3, twenty times the uniform share
const HINTS = {
  row: "Up: more than an equal share of the attention, down: less; the logarithmic scale ends at 400 times as much. Gray: offsets to places that the encoding is built for. Thin: before the move.",
  image: "Orange: more than an equal share of the attention, blue: less, brightest from 20 times as much. Square: the query. Dotted: places that the encoding is built for. The move is to the right.",
};

/** (encodings) Attention of one token under every encoding, with the same query and keys. */
export default (stage, data) => {
  const { views, settings, reach, limit, moves } = data;
  const choices = {
    view: ["positions", { row: "a row", image: "an image" }],
    content: ["keys", { kernel: "all like the query", one: "all alike", own: "each its own" }],
    trained: ["built for", (row, i) => `${row}, or ${settings.image.trained[i]} × ${settings.image.trained[i]}`],
    base: ["base of the waves", (base) => base],
    width: ["channels of a ring", (width) => width],
  };
  const words = ([key, [, of]]) =>
    typeof of === "object" ? of : Object.fromEntries(settings.row[key].map((value, i) => [value, of(value, i)]));
  const { cells } = stage.state; // of a small version, which has few controls
  if (!cells) stage.keep(["moved", ...Object.keys(choices)]);
  stage.limit = (state) => {
    state.moved = clamp(Math.round(state.moved) || 0, 0, moves - 1);
    Object.entries(choices).forEach((choice) => {
      const [key, known] = [choice[0], words(choice)];
      if (!(state[key] in known)) state[key] = Object.keys(known)[0];
    });
  };

  /** Offsets along one axis from the query to the places that the encoding is built for. */
  const zone = (state, moved) => {
    const trained = settings[state.view].trained[chosen(settings, state, "trained")];
    return [-trained / 2 - moved, trained / 2 - 1 - moved];
  };
  const row = (name, s, w, h, state) => {
    const [left, right, bottom] = [2, w - 2, h - 16];
    const x = (delta) => left + ((delta + reach.row) / (2 * reach.row)) * (right - left);
    const y = (value) => ((limit - value) / (2 * limit)) * bottom;
    const offsets = range(2 * reach.row + 1).map((i) => i - reach.row);
    const curve = (values, kind) => graph(offsets, x, (delta) => y(values[delta + reach.row]), kind);
    const [from, to] = zone(state, state.moved).map((delta) => clamp(delta, -reach.row, reach.row));
    return (
      box(x(from), 0, x(to) - x(from), bottom, "zone") +
      line(left, y(0), right, y(0), "axis") +
      line(x(0), 0, x(0), bottom, "mark") +
      (state.moved ? curve(logWeights(data, name, { ...state, moved: 0 }), "curve muted thin") : "") +
      curve(logWeights(data, name, state), "curve k") +
      each([-reach.row, 0, reach.row], (delta, i) =>
        label(x(delta), h - 4, signed(delta), "small muted", ["start", "middle", "end"][i]),
      )
    );
  };
  const image = (name, s, w, h, state) => {
    const count = 2 * reach.image + 1;
    const size = Math.floor(Math.min(w, h) / count);
    const [edge, side] = [2, count * size];
    const values = logWeights(data, name, state);
    const rows = range(count).map((r) =>
      values.slice(r * count, (r + 1) * count).map((value) => clamp(value / BRIGHT, -1, 1)),
    );
    const edges = [zone(state, 0), zone(state, state.moved)].map(([from, to]) =>
      [from, to + 1].map((delta) => size * clamp(delta + reach.image, 0, count)),
    );
    const [[up, down], [west, east]] = edges;
    const middle = edge + size * reach.image;
    return (
      diverging(rows, edge, edge, side, side) +
      box(edge, edge, side, side, "edge") +
      box(edge + west, edge + up, east - west, down - up, "common") +
      box(middle, middle, size, size, "pick thin")
    );
  };
  stage.panelBox.classList.add("cells");
  const panels = data.names
    .filter((name) => !cells || cells.includes(name))
    .map((name) => {
      const svg = stage.panel(
        `<a href="${pageAt("encodings.html")}#${name}"><code>${name}</code></a>`,
        `Attention weights under ${name}.`,
        (_, { view }) => (view === "row" ? 104 : 150),
        (s, w, h, state) => (state.view === "row" ? row : image)(name, s, w, h, state),
      );
      return [name, svg.parentElement];
    });

  stage.slider("moved", "s", "both tokens move by", { min: 0, max: moves - 1 });
  const place = stage.below();
  Object.entries(choices)
    .filter(([key]) => !cells || key === "content")
    .forEach((choice) => stage.choice(choice[0], choice[1][0], words(choice), place));
  if (!cells) saveButtons(stage, "encodings", stage.below());
  stage.number("changed", "the move changes");
  const hint = stage.hint("");
  stage.begin(({ view, moved }) => {
    panels.forEach(([name, panel]) => (panel.hidden = !(name in views[view])));
    hint.textContent = HINTS[view];
    const changed = panels.map(([name]) => name).filter((name) => moved && views[view][name]?.moves);
    return { changed: changed.join(", ") || "no cell" };
  });
};
