import { range } from "../formulas.js";
import { box, clamp, diverging, each, line, px } from "../svg.js";

const SIDES = [12, 16]; // rows and columns of patches of the photograph
const WINDOW = 8; // patches along what the models see of it
const MOVE = 2; // patches that it can be moved each way
const QUERIES = WINDOW - 2 * MOVE; // patches along the middle, which stay in view: each can be the query

/** Row and column in the window of the first of the queries, and of the one chosen. */
const first = ({ sy, sx }) => [MOVE + sy, MOVE + sx];
const chosen = (state) => {
  const [row, column] = first(state);
  return [row + Math.floor((state.patch - 1) / QUERIES), column + ((state.patch - 1) % QUERIES)];
};
const moveNumber = ({ sy, sx }) => (sy + MOVE) * (2 * MOVE + 1) + sx + MOVE;

/** Where a drawing is: the size of a patch, its left and upper edge, its side. */
const frame = (w, h) => {
  const cell = Math.floor((Math.min(w, h) - 4) / WINDOW);
  return { cell, left: Math.floor((w - cell * WINDOW) / 2), top: 2, side: cell * WINDOW };
};
/** The query, and dotted the patches that were there before the move as well. */
const marks = (state, { cell, left, top, side }) => {
  const { sy, sx } = state;
  const [row, column] = chosen(state);
  const [x, y] = [left + cell * Math.max(0, sx), top + cell * Math.max(0, sy)];
  const [high, wide] = [sy, sx].map((s) => side - cell * Math.abs(s));
  return (
    box(left, top, side, side, "edge") +
    each(["common ground", "common"], (kind) => (sy || sx ? box(x, y, wide, high, kind) : "")) +
    each(["halo", "pick"], (kind) => box(left + column * cell, top + row * cell, cell, cell, `${kind} query`))
  );
};
const height = (narrow) => (narrow ? 156 : 228);

/** (photo) Scores of one patch of a photograph with all others; a move changes those that are not relative. */
export default (stage, { photo, maps }) => {
  const id = `wave-photo-${stage.id}`;
  const size = `width="${SIDES[1]}" height="${SIDES[0]}"`;
  stage.define(`<image id="${id}" href="${photo}" ${size}/>`);
  const view = stage.panel(
    "<b>the photograph</b><br><span class='on-screen'>drag it; click a patch</span>",
    "The part of a photograph that the models see. A grid marks the patches in its middle; one is the query.",
    height,
    (s, w, h, state) => {
      const at = frame(w, h);
      const { cell, left, top, side } = at;
      const [row, column] = first(state);
      const [x, y] = [left + cell * column, top + cell * row];
      const [dx, dy] = [SIDES[1] - QUERIES, SIDES[0] - QUERIES].map((around) => (around / 2) * cell);
      const far = QUERIES * cell;
      return (
        `<clipPath id="${id}-view">${box(left, top, side, side, "")}</clipPath>` +
        `<g clip-path="url(#${id}-view)">` +
        `<use href="#${id}" transform="translate(${px(x - dx)} ${px(y - dy)}) scale(${cell})"/></g>` +
        each(
          range(QUERIES + 1).map((i) => i * cell),
          (d) => line(x, y + d, x + far, y + d, "seam") + line(x + d, y, x + d, y + far, "seam"),
        ) +
        marks(state, at)
      );
    },
    "third",
  );
  stage.grip(view, {
    tap: (x, y, w, h) => {
      const { cell, left, top } = frame(w, h);
      const inWindow = [y - top, x - left].map((at) => Math.floor(at / cell));
      const [row, column] = first(stage.state).map((from, i) => clamp(inWindow[i] - from, 0, QUERIES - 1));
      stage.set({ patch: row * QUERIES + column + 1 });
    },
    pull: (dx, dy, from, w, h) => {
      const { cell } = frame(w, h);
      const to = (start, pulled) => clamp(start + Math.round(pulled / cell), -MOVE, MOVE);
      stage.set({ sx: to(from.sx, dx), sy: to(from.sy, dy) });
    },
  });
  Object.entries(maps).forEach(([name, { title, scores }]) => {
    const shares = Array.from(Int8Array.from(atob(scores), (byte) => byte.charCodeAt(0)), (v) => v / 127);
    stage.panel(
      `<b>${title}</b><br>change <b data-number="change-${name}"></b>`,
      `Map of the query's scores with all patches: ${title}.`,
      height,
      (s, w, h, state) => {
        const at = frame(w, h);
        const start = (moveNumber(state) * QUERIES ** 2 + state.patch - 1) * WINDOW ** 2;
        const rows = range(WINDOW).map((r) => shares.slice(start + r * WINDOW, start + (r + 1) * WINDOW));
        return diverging(rows, at.left, at.top, at.side, at.side) + marks(state, at);
      },
      "third",
    );
    stage.number(`change-${name}`, `${title}, change`);
  });
  stage.slider("sy", "s<sub>y</sub>", "photo down", { min: -MOVE, max: MOVE });
  stage.slider("sx", "s<sub>x</sub>", "photo right", { min: -MOVE, max: MOVE });
  stage.slider("patch", "q", "query: patch", { min: 1, max: QUERIES ** 2 });
  stage.button("move back", () => stage.set({ sy: 0, sx: 0 }));
  stage.hint(
    "Each map has a scale of its own: blue for negative scores, no color for zero, orange for positive ones. " +
      `Any of the ${QUERIES ** 2} patches of the grid can be the query. They are numbered row by row and keep ` +
      "their numbers when the photograph moves.",
  );
  stage.begin((state) =>
    Object.fromEntries(
      Object.entries(maps).map(([name, { changes }]) => [
        `change-${name}`,
        changes[moveNumber(state)][state.patch - 1],
      ]),
    ),
  );
};
