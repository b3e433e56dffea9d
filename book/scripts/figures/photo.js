import { dot, encoded, halves, queryOrKey, range } from "../formulas.js";
import { box, clamp, diverging, each, element, label, line, px, text } from "../svg.js";

const SIDES = [12, 16]; // rows and columns of patches of the photograph
const WINDOW = 8; // patches along what the models see of it
const REACH = SIDES.map((side) => (side - WINDOW) / 2);
const LEGEND = 24; // px under a map

// Places are (row, column) in the window. A patch is named by its place while the photograph is unmoved.
const places = range(WINDOW).flatMap((r) => range(WINDOW).map((c) => [r, c]));
const inside = ([r, c]) => Math.min(r, c) >= 0 && Math.max(r, c) < WINDOW;
const number = ([r, c], columns = WINDOW) => r * columns + c;
const query = ({ qy, qx }) => [qy, qx];
const key = ({ ky, kx }) => [ky, kx];
const moved = ([r, c], { sy, sx }) => [r + sy, c + sx];
const back = ([r, c], { sy, sx }) => [r - sy, c - sx];
const unmoved = (state) => ({ ...state, sy: 0, sx: 0 });

/** The query stays in the window. */
const limit = (state) =>
  ["y", "x"].forEach((axis, i) => {
    const at = state[`q${axis}`];
    const [low, high] = [Math.max(-REACH[i], -at), Math.min(REACH[i], WINDOW - 1 - at)];
    state[`s${axis}`] = clamp(state[`s${axis}`], low, high);
  });

const nest = (flat, [n, ...rest]) => {
  const size = flat.length / n;
  return rest.length ? range(n).map((i) => nest(flat.slice(i * size, (i + 1) * size), rest)) : flat;
};
const unpacked = (parts) =>
  Object.fromEntries(
    Object.entries(parts).map(([part, packed]) => [part, nest(halves(packed.halves), packed.shape)]),
  );

/** Of each model, the scores of the query with all places of the window, and what a move changed of them. */
const scoresOf = ({ patches, models }) => {
  const pixels = patches.map((patch) => patch.map((value) => value / 255));
  const weights = Object.fromEntries(Object.entries(models).map(([name, parts]) => [name, unpacked(parts)]));
  const kept = {};
  const once = (what, make) => (kept[what.join()] ??= make());

  /** The query (0) or key (1) of the patch that stands at `place`. */
  const vector = (name, which, place, state) => {
    const [r, c] = back(place, state);
    const patch = number([r + REACH[0], c + REACH[1]], SIDES[1]);
    const own = weights[name].table ? number(place) : "";
    return once(["vector", name, which, state.head, patch, own], () =>
      queryOrKey(weights[name], state.head - 1, which, pixels[patch], own),
    );
  };
  const scores = (name, state) =>
    once(["scores", name, state.head, state.qy, state.qx, state.sy, state.sx], () => {
      const at = moved(query(state), state);
      const q = encoded[name](vector(name, 0, at, state), at);
      const keys = places.map((place) => encoded[name](vector(name, 1, place, state), place));
      return keys.map((k) => dot(q, k) / Math.sqrt(q.length));
    });
  /** 0 where only one of the two windows shows the key. */
  const changes = (name, state) => {
    const before = scores(name, unmoved(state));
    return scores(name, state).map((value, i) => {
      const place = back(places[i], state);
      return inside(place) ? value - before[number(place)] : 0;
    });
  };
  /** The largest score, unmoved or moved as far as can be: the end of the color scale. */
  const largest = (name, state) =>
    once(["largest", name, state.head, state.qy, state.qx], () => {
      const farthest = [-1, 1].flatMap((y) => [-1, 1].map((x) => [y * REACH[0], x * REACH[1]]));
      const states = farthest.map(([sy, sx]) => ({ ...state, sy, sx }));
      states.forEach(limit);
      const all = [unmoved(state), ...states].flatMap((one) => scores(name, one));
      return Math.max(...all.map(Math.abs));
    });
  return { scores, changes, largest };
};

/** Where a drawing is: the size of a patch, its left and upper edge, its side. */
const frame = (w, h) => {
  const cell = Math.floor(Math.min(w - 4, h - LEGEND) / WINDOW);
  return { cell, left: (w - cell * WINDOW) / 2, top: 2, side: cell * WINDOW };
};
const mark = ([r, c], { cell, left, top }, kind) =>
  inside([r, c])
    ? each(["halo", "pick"], (layer) => box(left + c * cell, top + r * cell, cell, cell, `${layer} ${kind}`))
    : "";
/** The patches that were there before the move as well. */
const common = ({ sy, sx }, { cell, left, top }) => {
  const [x, y] = [left + cell * Math.max(0, sx), top + cell * Math.max(0, sy)];
  const [high, wide] = [sy, sx].map((s) => cell * (WINDOW - Math.abs(s)));
  return sy || sx ? each(["common ground", "common"], (kind) => box(x, y, wide, high, kind)) : "";
};
const marks = (state, at) =>
  box(at.left, at.top, at.side, at.side, "edge") +
  common(state, at) +
  mark(moved(key(state), state), at, "key") +
  mark(moved(query(state), state), at, "query");
const height = (narrow) => (narrow ? 164 : 220) + LEGEND;

/** (photo) Scores of one patch of a photograph with all others; a move changes those that are not relative. */
export default (stage, { photo, patches, names, models }) => {
  const { scores, changes, largest } = scoresOf({ patches, models });
  const id = `wave-photo-${stage.id}`;
  const size = `width="${SIDES[1]}" height="${SIDES[0]}"`;
  const picture = `<svg width="0" height="0"><image id="${id}" href="${photo}" ${size}/></svg>`;
  stage.root.append(element("div", { class: "wave-defs", "aria-hidden": "true" }, picture));
  const view = stage.panel(
    "<b>the photograph</b><br><span>drag it;</span> <span>click a patch</span>",
    "The part of a photograph that the models see, on a grid of patches; query and key are marked.",
    height,
    (s, w, h, state) => {
      const at = frame(w, h);
      const { cell, left, top, side } = at;
      const [x, y] = [left + cell * (state.sx - REACH[1]), top + cell * (state.sy - REACH[0])];
      const grid = each(range(WINDOW - 1), (i) => {
        const d = cell * (i + 1);
        const across = line(left, top + d, left + side, top + d, "seam");
        return line(left + d, top, left + d, top + side, "seam") + across;
      });
      return (
        `<clipPath id="${id}-view">${box(left, top, side, side, "")}</clipPath>` +
        `<g clip-path="url(#${id}-view)">` +
        `<use href="#${id}" transform="translate(${px(x)} ${px(y)}) scale(${cell})"/></g>` +
        grid +
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
  stage.grip(view, {
    tap: (...at) => {
      const [qy, qx] = placeAt(...at);
      stage.set({ qy, qx });
    },
    pull: (dx, dy, from, w, h) => {
      const { cell } = frame(w, h);
      stage.set({ sx: from.sx + Math.round(dx / cell), sy: from.sy + Math.round(dy / cell) });
    },
  });
  Object.entries(names).forEach(([name, title]) => {
    const fact = (what) => `<span>${what} <b data-number="${what}-${name}"></b></span>`;
    const svg = stage.panel(
      `<b>${title}</b><br>${fact("score")} ${fact("change")}`,
      `Map of the query's scores with all patches: ${title}.`,
      height,
      (s, w, h, state) => {
        const at = frame(w, h);
        const { left, top, side } = at;
        const most = largest(name, state);
        const shares = { scores, changes }[state.show](name, state).map((value) => value / most);
        const rows = range(WINDOW).map((r) => shares.slice(r * WINDOW, (r + 1) * WINDOW));
        const [low, high, y] = [left + side / 4, left + (3 * side) / 4, top + side + 16];
        const scale = range(21).map((i) => (i - 10) / 10);
        return (
          diverging(rows, left, top, side, side) +
          marks(state, at) +
          diverging([scale], low, y - 9, side / 2, 10) +
          label(low - 5, y, text(-most, 1), "small muted", "end") +
          label(high + 5, y, text(most, 1), "small muted", "start")
        );
      },
      "third",
    );
    stage.drag(svg, (...at) => {
      const [ky, kx] = placeAt(...at);
      stage.set({ ky, kx });
    });
    stage.number(`score-${name}`, `${title}, score`);
    stage.number(`change-${name}`, "change");
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
  stage.limit = limit;
  stage.begin((state) => {
    const place = moved(key(state), state);
    const numbers = Object.keys(names).map((name) => ({
      [`score-${name}`]: inside(place) ? scores(name, state)[number(place)] : "outside",
      [`change-${name}`]: Math.max(...changes(name, state).map(Math.abs)),
    }));
    return Object.assign({}, ...numbers);
  });
};
