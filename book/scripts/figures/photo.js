import { dot, encoded, halves, queryOrKey, range } from "../formulas.js";
import { box, cells, clamp, each, element, label, line, px, text } from "../svg.js";

const SIDES = [12, 16]; // rows and columns of patches of the photograph
const WINDOW = 8; // patches along what the models see of it
const REACH = SIDES.map((side) => (side - WINDOW) / 2);
const LEGEND = 24; // px under a map

const nest = (flat, [n, ...rest]) =>
  rest.length ? range(n).map((i) => nest(flat.slice((i * flat.length) / n, ((i + 1) * flat.length) / n), rest)) : flat;

/** (photo) Scores of one patch of a photograph with all others, and what is left of them when the photograph moves. */
export default (stage, { photo, patches, names, models }) => {
  const weights = Object.fromEntries(
    Object.entries(models).map(([name, parts]) => [
      name,
      Object.fromEntries(Object.entries(parts).map(([part, { shape, halves: h }]) => [part, nest(halves(h), shape)])),
    ]),
  );
  const pixels = patches.map((patch) => patch.map((value) => value / 255));
  const places = range(WINDOW).flatMap((r) => range(WINDOW).map((c) => [r, c]));
  const inside = ([r, c]) => Math.min(r, c) >= 0 && Math.max(r, c) < WINDOW;
  const number = ([r, c], columns = WINDOW) => r * columns + c;
  const kept = {};
  const once = (key, make) => (kept[key] ??= make());

  // Places are (row, column) in the window. A patch is named by its place while the photograph is unmoved.
  const query = ({ qy, qx }) => [qy, qx];
  const key = ({ ky, kx }) => [ky, kx];
  const moved = ([r, c], { sy, sx }) => [r + sy, c + sx];
  const back = ([r, c], { sy, sx }) => [r - sy, c - sx];
  const unmoved = (state) => ({ ...state, sy: 0, sx: 0 });

  /** The query or key of the patch that stands at `place`. */
  const vector = (name, which, place, state) => {
    const [r, c] = back(place, state);
    const patch = number([r + REACH[0], c + REACH[1]], SIDES[1]);
    const own = weights[name].table ? number(place) : "";
    return once([name, which, state.head, patch, own].join(), () =>
      queryOrKey(weights[name], state.head - 1, which, pixels[patch], own),
    );
  };
  /** The scores of the query with all places of the window. */
  const scores = (name, state) =>
    once([name, state.head, state.qy, state.qx, state.sy, state.sx].join(), () => {
      const at = moved(query(state), state);
      const q = encoded[name](vector(name, 0, at, state), at);
      return places.map((place) => dot(q, encoded[name](vector(name, 1, place, state), place)) / Math.sqrt(q.length));
    });
  /** How the scores have changed since the photograph was unmoved; null where only one window shows the key. */
  const changes = (name, state) => {
    const before = scores(name, unmoved(state));
    return scores(name, state).map((value, i) => {
      const place = back(places[i], state);
      return inside(place) ? value - before[number(place)] : null;
    });
  };

  /** The largest score of the query with any patch of the photograph, as it is or moved as far as it can be. */
  const largest = (name, state) =>
    once([name, state.head, state.qy, state.qx].join(), () => {
      const corners = [-1, 1].flatMap((y) => [-1, 1].map((x) => ({ ...state, sy: y * REACH[0], sx: x * REACH[1] })));
      corners.forEach(stage.limit);
      const all = [unmoved(state), ...corners].flatMap((moves) => scores(name, moves));
      return Math.max(...all.map(Math.abs));
    });

  /** Where a drawing is: the size of a patch, its left edge. */
  const frame = (w, h) => {
    const cell = Math.floor(Math.min(w - 4, h - LEGEND) / WINDOW);
    return { cell, left: (w - cell * WINDOW) / 2, top: 2 };
  };
  const mark = ([r, c], { cell, left, top }, kind) =>
    inside([r, c])
      ? each(["halo", "pick"], (layer) => box(left + c * cell, top + r * cell, cell, cell, `${layer} ${kind}`))
      : "";
  /** The patches that were there before the move as well. */
  const common = ({ sy, sx }, { cell, left, top }) => {
    const [high, wide] = [sy, sx].map((s) => cell * (WINDOW - Math.abs(s)));
    const outline = (kind) => box(left + cell * Math.max(0, sx), top + cell * Math.max(0, sy), wide, high, kind);
    return sy || sx ? outline("common ground") + outline("common") : "";
  };
  const marks = (state, at) =>
    common(state, at) +
    mark(moved(key(state), state), at, "key") +
    mark(moved(query(state), state), at, "query");
  const height = (narrow) => (narrow ? 164 : 220) + LEGEND;

  const id = `wave-photo-${stage.id}`;
  const picture = `<svg width="0" height="0"><defs><image id="${id}" href="${photo}" width="${SIDES[1]}" height="${SIDES[0]}"/></defs></svg>`;
  stage.root.append(element("div", { class: "wave-defs", "aria-hidden": "true" }, picture));
  const window = stage.panel(
    "<b>the photograph</b><br><span>drag it;</span> <span>click a patch</span>",
    "The part of a photograph that the models see, on a grid of patches. Two are marked: the query and a key.",
    height,
    (s, w, h, state) => {
      const at = frame(w, h);
      const { cell, left, top } = at;
      const side = cell * WINDOW;
      const [x, y] = [left + cell * (state.sx - REACH[1]), top + cell * (state.sy - REACH[0])];
      const grid = each(
        range(WINDOW - 1).map((i) => cell * (i + 1)),
        (d) => line(left + d, top, left + d, top + side, "seam") + line(left, top + d, left + side, top + d, "seam"),
      );
      return (
        `<clipPath id="${id}-window">${box(left, top, side, side, "")}</clipPath>` +
        `<g clip-path="url(#${id}-window)"><use href="#${id}" transform="translate(${px(x)} ${px(y)}) scale(${cell})"/></g>` +
        grid +
        box(left, top, side, side, "edge") +
        marks(state, at) +
        label(w / 2, top + side + 16, "solid: query, dashed: key", "small muted")
      );
    },
    "third",
  );
  const placeAt = (x, y, w, h) => {
    const { cell, left, top } = frame(w, h);
    const place = [y - top, x - left].map((at) => clamp(Math.floor(at / cell), 0, WINDOW - 1));
    return back(place, stage.state).map((at) => clamp(at, 0, WINDOW - 1));
  };
  stage.grip(window, {
    tap: (...at) => {
      const [qy, qx] = placeAt(...at);
      stage.set({ qy, qx });
    },
    pull: (dx, dy, from, w, h) => {
      const { cell } = frame(w, h);
      const [sx, sy] = [from.sx + Math.round(dx / cell), from.sy + Math.round(dy / cell)];
      stage.set({ sx, sy });
    },
  });
  Object.entries(names).forEach(([name, title]) => {
    const svg = stage.panel(
      `<b>${title}</b><br><span>score <b data-number="score-${name}"></b></span> <span>change <b data-number="change-${name}"></b></span>`,
      `Map of the query's scores with all patches: ${title}.`,
      height,
      (s, w, h, state) => {
        const at = frame(w, h);
        const { cell, left, top } = at;
        const side = cell * WINDOW;
        const most = largest(name, state);
        const shown = { scores, changes }[state.show](name, state).map((value) => value / most);
        const rows = (sign) =>
          range(WINDOW).map((r) => shown.slice(r * WINDOW, (r + 1) * WINDOW).map((v) => Math.max(0, sign * v)));
        const scale = range(21).map((i) => (i - 10) / 10);
        const bar = (sign, kind) =>
          cells([scale.map((v) => Math.max(0, sign * v))], left + side / 4, top + side + 7, side / 2, 10, kind);
        return (
          cells(rows(-1), left, top, side, side, "q") +
          cells(rows(1), left, top, side, side, "k") +
          box(left, top, side, side, "edge") +
          marks(state, at) +
          bar(-1, "q") +
          bar(1, "k") +
          label(left + side / 4 - 5, top + side + 16, text(-most, 1), "small muted", "end") +
          label(left + (3 * side) / 4 + 5, top + side + 16, text(most, 1), "small muted", "start")
        );
      },
      "third",
    );
    stage.drag(svg, (...at) => {
      const [ky, kx] = placeAt(...at);
      stage.set({ ky, kx });
    });
    stage.number(`score-${name}`, `${title}, score`, 2, stage.root.querySelector(`[data-number="score-${name}"]`));
    stage.number(`change-${name}`, "change", 2, stage.root.querySelector(`[data-number="change-${name}"]`));
  });

  const across = { min: 0, max: WINDOW - 1 };
  stage.slider("sy", "s<sub>y</sub>", "photo down", { min: -REACH[0], max: REACH[0] });
  stage.slider("sx", "s<sub>x</sub>", "photo right", { min: -REACH[1], max: REACH[1] });
  stage.slider("qy", "q<sub>y</sub>", "query, row", across);
  stage.slider("qx", "q<sub>x</sub>", "query, column", across);
  stage.slider("ky", "k<sub>y</sub>", "key, row", across);
  stage.slider("kx", "k<sub>x</sub>", "key, column", across);
  const below = stage.below();
  stage.choice("head", "head", { 1: "first", 2: "second", 3: "third" }, below);
  stage.choice("show", "maps of", { scores: "scores", changes: "their changes" }, below);
  stage.button("move back", () => stage.set({ sy: 0, sx: 0 }), below);
  stage.limit = (state) =>
    ["y", "x"].forEach((axis, i) => {
      const [room, at] = [REACH[i], state[`q${axis}`]]; // the query stays in the window
      state[`s${axis}`] = clamp(state[`s${axis}`], Math.max(-room, -at), Math.min(room, WINDOW - 1 - at));
    });
  stage.begin((state) =>
    Object.fromEntries(
      Object.keys(names).flatMap((name) => {
        const place = moved(key(state), state);
        const score = inside(place) ? scores(name, state)[number(place)] : "outside";
        return [
          [`score-${name}`, score],
          [`change-${name}`, Math.max(...changes(name, state).map(Math.abs))],
        ];
      }),
    ),
  );
};
