import { add, bump, dot, range, roll, through } from "../formulas.js";
import { bars, box, circle, clamp, each, graph, label, line, onRing, signed } from "../svg.js";

/** (index) Two tokens walk along a row; their rings turn, their score stays. */
export default (stage) => {
  const n = 12;
  const G = 16;
  const reach = 4;
  const q = add(
    bump(n, 0, 6),
    bump(n, 7, 9).map((value) => 0.45 * value),
  );
  const k = bump(n, 2, 3);
  const score = (p, delta) => dot(roll(q, p), roll(k, p + delta)) / Math.sqrt(n);
  const cells = (w) => {
    const size = Math.min(40, (w - 8) / G);
    return { size, left: (w - size * G) / 2 };
  };
  const svg = stage.panel(
    "",
    "A row of tokens. The query's and the key's ring of channels turn as their tokens move; a curve shows the score for every offset.",
    (narrow) => (narrow ? 286 : 284),
    (s, w, h, state) => {
      const { size, left } = cells(w);
      const center = (position) => left + size * (position + 0.5);
      const key = state.p + state.delta;
      const tokens =
        each(range(G), (i) =>
          box(
            left + size * i + 2,
            26,
            size - 4,
            size - 4,
            i === state.p ? "token q" : i === key ? "token k" : "token",
            'rx="3"',
          ),
        ) +
        (state.delta ? label(center(state.p), 18, "<tspan class='math'>p</tspan>", "q strong") : "") +
        label(
          clamp(center(key), 20, w - 20),
          18,
          `<tspan class='math'>p</tspan>${state.delta ? ` ${state.delta < 0 ? "−" : "+"} ${Math.abs(state.delta)}` : ""}`,
          "k strong",
        );
      const radius = Math.min(58, w * 0.125);
      const reached = Math.min(30, radius / 2);
      const y = h - 52 - radius;
      const places = { q: w * 0.17, k: w * 0.83 };
      const arms =
        line(center(s.p), 24 + size, places.q, y - radius - reached - 8, "arm q") +
        line(center(s.p + s.delta), 24 + size, places.k, y - radius - reached - 8, "arm k");
      const ring = (kind, values, steps) =>
        circle(places[kind], y, radius, "rim") +
        bars(places[kind], y, radius, reached, values, steps, kind) +
        each(range(n), (i) => circle(...onRing(places[kind], y, radius, i, n), 1.6, "pin")) +
        label(places[kind], y + 5, kind === "q" ? "query" : "key", `${kind} strong`);
      const chart = { left: w * 0.36, right: w * 0.64, top: y - radius + 8, bottom: h - 26 };
      const c = range(n).map((d) => score(0, d));
      const wave = through(c);
      const cx = (d) => chart.left + ((d + reach) / (2 * reach)) * (chart.right - chart.left);
      const cy = (value) => chart.bottom - (value / Math.max(...c)) * (chart.bottom - chart.top);
      const fine = range(reach * 16 + 1).map((i) => -reach + i / 8);
      const curve =
        graph(fine, cx, (d) => cy(wave(d)), "curve muted") +
        each(range(2 * reach + 1), (i) =>
          circle(cx(i - reach), cy(score(state.p, i - reach)), 3, "dot muted"),
        );
      const height = cy(wave(s.delta));
      return (
        (key > 3
          ? label(left, 18, "tokens", "small muted", "start")
          : label(w - left, 18, "tokens", "small muted", "end")) +
        tokens +
        arms +
        ring("q", q, s.p) +
        ring("k", k, s.p + s.delta) +
        line(chart.left - 6, chart.bottom, chart.right + 6, chart.bottom, "axis") +
        curve +
        line(cx(s.delta), chart.bottom, cx(s.delta), height, "stem") +
        circle(cx(s.delta), height, 6, "dot ink") +
        label(w / 2, h - 8, `offset Δ = ${signed(state.delta)}`, "small muted") +
        label(w / 2, chart.top - 16, "score", "strong")
      );
    },
  );
  let held = "p"; // the key alone is carried by itself, the query with its key
  const follow = ([x, , w]) => {
    const { size, left } = cells(w);
    const [at, { p }] = [Math.floor((x - left) / size), stage.state];
    stage.pause();
    stage.set(
      held === "delta"
        ? { delta: clamp(at - p, -reach, reach) }
        : { p: clamp(at, reach, G - 1 - reach) },
    );
  };
  stage.pointer(svg, "draggable", {
    down: (place) => {
      const { size, left } = cells(place[2]);
      const away = (token) => Math.abs(place[0] - left - size * (token + 0.5));
      const { p, delta } = stage.state;
      held = delta && away(p + delta) < away(p) ? "delta" : "p";
      follow(place);
    },
    move: follow,
  });
  stage.slider("p", "p", "both tokens", { min: reach, max: G - 1 - reach, glide: true });
  stage.slider("delta", "Δ", "key − query", { min: -reach, max: reach, glide: true });
  stage.player("p", { min: reach, max: G - 1 - reach });
  stage.number(
    "score",
    "score <i>(S<sup>p</sup>q)<sup>⊤</sup>S<sup>p+Δ</sup>k / √n</i>",
    4,
  );
  stage.begin((s) => ({ score: score(s.p, s.delta) }));
};
