import { bump, dot, mod, range, roll, twistedRoll } from "../formulas.js";
import { bars, circle, clamp, each, graph, label, line, onRing } from "../svg.js";

/** (g) A plain ring beside a twisted one, where a value that passes the seam changes its sign. */
export default (stage) => {
  const n = 8;
  const q = bump(n, 2, 3);
  const k = range(n).map((i) => 1 - i / 10);
  const moves = { plain: roll, twisted: twistedRoll };
  const score = (kind, p) => dot(q, moves[kind](k, p)) / Math.sqrt(n);
  const highest = Math.max(...range(n).map((p) => score("plain", p)));
  const ring = (kind, letter, passes) =>
    stage.panel(
      `${kind} ring, <i>${letter}<sup>p</sup>k</i>`,
      `Bars around a ring of ${n} channels, the key, moved by p channels against the clock. ${passes}`,
      (narrow) => (narrow ? 172 : 256),
      (s, w, h) => {
        const [cx, cy, room] = [w / 2, h / 2 + 3, Math.min(w, h - 18) / 2];
        const [radius, reach] = [room * 0.54, room * 0.26];
        const at = (i, away) => onRing(cx, cy, away, i, n);
        const passed = (j) => kind === "twisted" && mod(Math.floor((j - s.p + 0.5) / n), 2);
        const moved = k.map((value, j) => (passed(j) ? -value : value));
        const part = (bound, tone) =>
          bars(
            cx,
            cy,
            radius,
            reach,
            moved.map((value) => bound(0, value)),
            s.p,
            tone,
          );
        const [x, y] = at(-0.5, room);
        return (
          circle(cx, cy, radius, "rim") +
          part(Math.max, "k") +
          part(Math.min, "q") +
          each(range(n), (i) => {
            const [left, base] = at(i, room * 0.93);
            return label(left, base + 4, i, "small muted");
          }) +
          line(...at(-0.5, radius - reach), ...at(-0.5, radius + reach), "cursor") +
          label(x, y + 2, kind === "twisted" ? "× (−1)" : "× 1", "small strong", "end")
        );
      },
      "pair",
    );
  const chart = (kind) => {
    const [left, low, middle, high] = [14, 2, 38, 74];
    const last = kind === "twisted";
    const svg = stage.panel(
      `score on the ${kind} ring: <b data-number="${kind}"></b>`,
      `Score on the ${kind} ring against the offset, from 0 to ${2 * n}.`,
      last ? 110 : high + 4,
      (s, w, h, state) => {
        const x = (p) => left + ((w - 2 * left) * p) / (2 * n);
        const y = (p) => middle - ((middle - low - 6) * score(kind, p)) / highest;
        const tone = (p) => (score(kind, p) < 0 ? "q" : "k");
        const laps = [0, n, 2 * n];
        const fine = range(32 * n + 1).map((i) => i / 16);
        return (
          line(x(0), middle, x(2 * n), middle, "axis") +
          each(laps, (p) => line(x(p), low, x(p), high, "mark")) +
          (last
            ? graph(fine, x, y, "curve muted") +
              each(laps, (p) => label(x(p), high + 16, p, "small muted")) +
              label(x(n), h - 4, "offset Δ = <tspan class='math'>p</tspan>", "small muted")
            : "") +
          each(
            range(2 * n + 1),
            (p) =>
              line(x(p), middle, x(p), y(p), `stem ${tone(p)}`) + circle(x(p), y(p), 3, `dot ${tone(p)}`),
          ) +
          line(x(s.p), low, x(s.p), high, "cursor") +
          circle(x(state.p), y(state.p), 6, `dot ring ${tone(state.p)}`)
        );
      },
    );
    stage.drag(svg, (at, _, w) =>
      stage.set({ p: clamp(Math.round((2 * n * (at - left)) / (w - 2 * left)), 0, 2 * n) }),
    );
    stage.number(kind, `score on the ${kind} ring`, 4);
  };
  ring("plain", "S", "What passes the seam stays as it is.");
  ring("twisted", "N", "What passes the seam changes its sign: its bar points inward.");
  Object.keys(moves).forEach(chart);
  stage.slider("p", "p", "position of the key", { min: 0, max: 2 * n, glide: true });
  stage.player("p", { min: 0, max: 2 * n, period: () => 2 * n });
  stage.begin(({ p }) => ({ plain: score("plain", p), twisted: score("twisted", p) }));
};
