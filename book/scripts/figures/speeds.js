import { bump, dot, multiplexedRoll, range, sum, through, wavePeriod } from "../formulas.js";
import { bars, box, cells, circle, clamp, each, label, onRing } from "../svg.js";

/** (d) Waves of several speeds on one ring. */
export default (stage) => {
  const KINDS = ["q", "k", "third"];
  const shapes = ({ n, W }) => range(W).map(() => bump(n, 0, 7));
  const LAST = 17; // rows of the map
  stage.panel(
    "each wave on its ring, the sum outside",
    "Rings inside each other, one for each wave, and the ring of their sum. Wave w has moved w channels for each position.",
    322,
    (s, w, h, state) => {
      const [cx, cy] = [w / 2, h / 2];
      const { n, W } = state;
      const room = 78 / W;
      const inner = each(range(W), (i) => {
        const radius = 24 + room * i;
        return (
          circle(cx, cy, radius, "rim") +
          bars(cx, cy, radius, Math.min(room - 5, 36), shapes(state)[i], (i + 1) * s.p, KINDS[i]) +
          circle(...onRing(cx, cy, radius, -(i + 1) * s.p, n), 3.5, `dot ring ${KINDS[i]}`)
        );
      });
      const outer = 112;
      const alone = shapes(state).map(through);
      const total = range(n).map((place) => sum(alone.map((wave, i) => wave(place + (i + 1) * s.p))));
      return (
        inner +
        circle(cx, cy, outer, "rim") +
        bars(cx, cy, outer, 46 / W, total, 0, "ink") +
        each(range(n), (i) => circle(...onRing(cx, cy, outer, i, n), 2, "pin")) +
        label(cx, cy + 4, `<tspan class="math">p</tspan> = ${state.p}`, "small strong")
      );
    },
    "half",
  );
  const svg = stage.panel(
    "the sum at every position",
    "A map with a row for each position and a column for each channel. The waves cross; where they meet, the sum is large.",
    (narrow) => (narrow ? 240 : 330),
    (s, w, h, state) => {
      const { n, W } = state;
      const left = 54; // room for p = 16
      const [wide, high] = [(w - left - 6) / n, (h - 36) / LAST];
      const sums = range(LAST).map((p) => multiplexedRoll(shapes(state), p).map((value) => value / W));
      return (
        cells(sums, left, 4, wide * n, high * LAST, "q") +
        box(left - 2, 4 + s.p * high, wide * n + 4, high, "frame") +
        label(left - 8, 4 + s.p * high + high / 2 + 4, `p = ${state.p}`, "small strong", "end") +
        label(left, h - 14, "0", "small muted") +
        label(left + wide * n - wide / 2, h - 14, n - 1, "small muted") +
        label(left + (wide * n) / 2, h - 14, "channel", "small muted")
      );
    },
    "half",
  );
  stage.drag(svg, (_, at, __, h) =>
    stage.set({ p: clamp(Math.floor(((at - 4) / (h - 36)) * LAST), 0, LAST - 1) }),
  );
  stage.slider("p", "p", "position", { min: 0, max: LAST - 1, glide: true });
  stage.slider("W", "W", "waves", { min: 1, max: 3 });
  stage.slider("n", "n", "channels", { min: 8, max: 17 });
  stage.player("p", { min: 0, max: LAST - 1 });
  stage.number("length", "squared length of the sum", 3);
  stage.number("periods", "periods of the waves, <i>n</i>/gcd(<i>w</i>, <i>n</i>)");
  stage.begin((state) => {
    const total = multiplexedRoll(shapes(state), state.p);
    return {
      length: dot(total, total),
      periods: range(state.W)
        .map((i) => wavePeriod(state.n, i + 1))
        .join(", "),
    };
  });
};
