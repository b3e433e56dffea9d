import { bump, dot, mod, range, ringFrequencies, roll, spectrum, TAU } from "../formulas.js";
import { bars, circle, dial, each, label, onRing, px, raised, text } from "../svg.js";

/** Why the ring turns against its token. */
const against =
  "A ring turns against its token: <i>(Sx)<sub>i</sub> = x<sub>i+1</sub></i>, so a step to the right moves each value one channel back.";

/** (a) A roll beside its Fourier modes. */
export default (stage) => {
  const query = (n) => bump(n, 0, 4);
  stage.define(
    '<marker id="wave-arrow" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0.5L8 4L0 7.5Z" class="arrow"/></marker>',
  );
  stage.panel(
    "the ring of channels",
    "Bars around a ring of channels: a bump that has moved from channel 0 against the clock.",
    (narrow) => (narrow ? 240 : 300),
    (s, w, h, state) => {
      const { n } = state;
      const [cx, cy, radius] = [w / 2, h / 2 + 2, h * 0.28];
      const reach = h * 0.17;
      const places = each(range(n), (i) => {
        const [x, y] = onRing(cx, cy, radius - 17, i, n);
        return circle(...onRing(cx, cy, radius, i, n), 2, "pin") + label(x, y + 4, i, "small muted");
      });
      const swept = mod(-s.p / n, 1) * TAU;
      const [ex, ey] = onRing(cx, cy, radius - 34, -s.p, n);
      const way =
        mod(s.p, n) < 0.02
          ? ""
          : `<path class="way" marker-end="url(#wave-arrow)" d="M${px(cx)} ${px(cy - radius + 34)}A${radius - 34} ${radius - 34} 0 ${swept < Math.PI ? 1 : 0} 0 ${px(ex)} ${px(ey)}"/>`;
      return (
        circle(cx, cy, radius, "rim") +
        bars(cx, cy, radius, reach, query(n), 0, "ghost") +
        places +
        bars(cx, cy, radius, reach, query(n), s.p, "q", 0) +
        way +
        label(
          cx,
          cy + 6,
          raised("<tspan class='math'>S</tspan>", state.p) + "<tspan class='math'>q</tspan>",
          "big",
        )
      );
    },
    "half",
  );
  stage.panel(
    "its Fourier modes: each hand and its turns",
    "Clock faces, one for each Fourier mode k. Hand k has turned k times as far as the ring.",
    (narrow, state) => (narrow ? 88 * Math.ceil((Math.floor(state.n / 2) + 1) / 5) : 300),
    (s, w, h, state) => {
      const { n } = state;
      const modes = spectrum(query(n)).map(([real]) => real);
      const columns = Math.min(stage.narrow ? 5 : modes.length > 4 ? 3 : 2, modes.length);
      const rows = Math.ceil(modes.length / columns);
      const r = Math.min(42, h / rows / 2 - 20, w / columns / 2 - 7);
      return each(modes, (size, i) => {
        const x = (w / columns) * ((i % columns) + 0.5);
        const y = (h / rows) * (Math.floor(i / columns) + 0.5) - 16;
        const turned = (ringFrequencies(n)[i] * state.p) / TAU;
        return (
          dial(x, y, r, ringFrequencies(n)[i] * s.p, size / modes[0], i === 1 ? "marked" : "q") +
          label(x, y + r + 17, `<tspan class="math">k</tspan> = ${i}`, "strong") +
          label(
            x,
            y + r + 32,
            `<tspan data-number="turns-${i}">${text(turned)}</tspan>${stage.narrow ? "" : " turns"}`,
            "small muted",
          )
        );
      });
    },
    "half",
  );
  stage.slider("p", "p", "position", { min: 0, max: 24, glide: true });
  stage.slider("n", "n", "channels", { min: 3, max: 17 });
  stage.player("p", { min: 0, max: 24, period: (state) => Math.floor(24 / state.n) * state.n });
  stage.hint(against);
  stage.number("first", "value of channel 0", 4);
  stage.number("overlap", "overlap with the start, <i>q<sup>⊤</sup>S<sup>p</sup>q / ‖q‖<sup>2</sup></i>", 4);
  stage.begin(({ n, p }) => {
    const q = query(n);
    return { first: roll(q, p)[0], overlap: dot(q, roll(q, p)) / dot(q, q) };
  });
};
