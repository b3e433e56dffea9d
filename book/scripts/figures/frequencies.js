import { apparentFrequency, range, ringFrequencies, ropeFrequencies } from "../formulas.js";
import { box, circle, clamp, each, graph, label, line, px, text } from "../svg.js";

/** (f) Geometric and arithmetic frequencies, and what integer positions see of the fast ones. */
export default (stage) => {
  const ring = ({ n, wavelength }) => ringFrequencies(n, wavelength).slice(0, n / 2); // pairs, as RoPE has
  const limit = (state) => Math.max(...ring(state), Math.PI * 1.15);
  stage.limit = (state) => {
    state.k = Math.min(state.k, state.n / 2 - 1);
  };
  stage.panel(
    "speeds, in radians per position",
    "Two rows of dots on an axis of angular frequency: RoPE's, and the ring's. Dots above π are joined to the slower frequency that they look like.",
    232,
    (s, w, h, state) => {
      const [left, right] = [14, w - 14];
      const logarithmic = state.axis === "logarithmic";
      const top = limit({ n: state.n, wavelength: s.wavelength });
      const low = Math.log10(1e-4);
      const begin = logarithmic ? left + 24 : left; // 0 stands before the gap of a logarithmic axis
      const x = (omega) => {
        if (!logarithmic) return left + (omega / top) * (right - left);
        if (omega < 1e-4) return left;
        return begin + ((Math.log10(omega) - low) / (Math.log10(12) - low)) * (right - begin);
      };
      const rows = { rope: 44, ring: 112, seen: 172 };
      const shown = ring({ n: state.n, wavelength: s.wavelength });
      const ticks = logarithmic
        ? [0, 1e-3, 1e-2, 0.1, 1, Math.PI]
        : range(Math.floor(top / Math.PI) + 1).map((i) => i * Math.PI);
      const names = logarithmic ? ["0", "0.001", "0.01", "0.1", "1", "π"] : ["0", "π", "2π", "3π"];
      const zone =
        box(x(Math.PI), 20, right - x(Math.PI), 164, "zone") +
        label(Math.min((x(Math.PI) + right) / 2, right - 34), 16, "aliased", "small muted");
      const dots =
        each(ropeFrequencies(state.n), (omega) => circle(x(omega), rows.rope, 4, "dot q")) +
        each(shown, (omega, k) => {
          const seen = apparentFrequency(omega);
          const fast = omega > Math.PI;
          const way = fast
            ? `<path class="fold" d="M${px(x(omega))} ${rows.ring}C${px(x(omega))} ${rows.ring + 40} ${px(x(seen))} ${rows.seen - 40} ${px(x(seen))} ${rows.seen}"/>`
            : line(x(omega), rows.ring, x(omega), rows.seen, "fold");
          return (
            way +
            circle(x(omega), rows.ring, 4, fast ? "dot hollow k" : "dot k") +
            circle(x(seen), rows.seen, 4, fast ? "dot hollow k" : "dot k") +
            (k === state.k
              ? circle(x(omega), rows.ring, 8, "target") + circle(x(seen), rows.seen, 8, "target")
              : "")
          );
        });
      return (
        zone +
        each(Object.values(rows), (y) => line(begin, y, right, y, "axis")) +
        dots +
        label(left, rows.rope - 12, "rope: geometric", "small q strong", "start") +
        label(left, rows.ring - 12, "roll: arithmetic", "small k strong", "start") +
        label(left, rows.seen + 20, "what integer positions see of it", "small k", "start") +
        each(
          ticks,
          (omega, i) =>
            label(clamp(x(omega), 12, w - 10), h - 8, names[i], "small muted") +
            line(x(omega), 184, x(omega), 210, "grid"),
        )
      );
    },
  );
  stage.panel(
    "one hand, seen at integer positions",
    "A fast wave and the slow wave through the same points at integer positions.",
    130,
    (s, w, h, state) => {
      const span = 10;
      const x = (p) => 14 + (p / span) * (w - 28);
      const y = (value) => 56 - 44 * value;
      const omega = ring({ n: state.n, wavelength: s.wavelength })[state.k];
      const seen = apparentFrequency(omega);
      const fine = range(601).map((i) => (i * span) / 600);
      return (
        line(x(0), y(0), x(span), y(0), "axis") +
        graph(fine, x, (p) => y(Math.cos(omega * p)), "curve thin k") +
        graph(fine, x, (p) => y(Math.cos(seen * p)), "curve seen") +
        each(
          range(span + 1),
          (p) => circle(x(p), y(Math.cos(omega * p)), 4.5, "dot ink") + label(x(p), h - 6, p, "small muted"),
        )
      );
    },
  );
  stage.slider("wavelength", "λ", "wavelength", { min: 0.3, max: 3, step: 0.01, digits: 2 });
  stage.slider("n", "n", "channels", { min: 8, max: 64, step: 2 });
  stage.slider("k", "k", "the hand below", { min: 0, max: 31 });
  stage.choice("axis", "axis", { logarithmic: "logarithmic", linear: "linear" });
  const special = Math.PI / Math.log(10000);
  stage.button(`near the paper's |<i>λ</i>| = π/ln 10000 = ${text(special, 3)}`, () =>
    stage.set({ wavelength: Math.round(special * 100) / 100 }),
  );
  stage.number("omega", "<i>ω</i><sub>k</sub>", 3);
  stage.number("seen", "seen as", 3);
  stage.number("aliased", "faster than π");
  stage.begin((state) => {
    const all = ring(state);
    const fast = all.filter((omega) => omega > Math.PI).length;
    return {
      omega: all[state.k],
      seen: apparentFrequency(all[state.k]),
      aliased: `${fast} of ${all.length}`,
    };
  });
};
