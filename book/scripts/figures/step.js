import {
  firstStep,
  fourierRows,
  mean,
  neighborsAlike,
  norm,
  range,
  relativePower,
  smoothGradient,
} from "../formulas.js";
import { box, each, label, line } from "../svg.js";

/** (step) Adam's first step in three bases: what becomes of slow waves. */
export default (stage) => {
  const { waves, basis } = stage.state;
  const n = waves[0].length;
  const fourier = fourierRows(n);
  const ROWS = {
    gradient: ["gradient", "ink", (g) => g],
    scale: ["one scale for the ring", "q", (g) => g.map((value) => (value * Math.sqrt(n)) / norm(g))],
    channels: ["step in channels", "k", (g) => g.map(Math.sign)],
    random: ["step in a random basis", "third", (g) => firstStep(basis, g)],
    fourier: ["step in Fourier coordinates", "fourth", (g) => firstStep(fourier, g)],
  };
  const keys = Object.keys(ROWS);
  let made = {};
  /** All vectors by row, for one smoothness. */
  const steps = (s) => {
    if (made.s !== s) {
      const gradients = waves.map((wave) => smoothGradient(wave, s));
      made = { s, rows: Object.fromEntries(keys.map((key) => [key, gradients.map(ROWS[key][2])])) };
    }
    return made.rows;
  };
  const chart = (values, left, width, base, unit, kind) => {
    const wide = width / values.length;
    const bar = (value, j) =>
      box(
        left + j * wide + 1,
        base - Math.max(value, 0) * unit,
        wide - 2,
        Math.abs(value) * unit,
        `cell ${kind}`,
      );
    return each(values, bar) + line(left, base, left + width, base, "axis");
  };
  const HIGH = 80; // room for entries up to 3.3 at 12 px each, and for powers up to 5.3 at 15 px
  keys.forEach((key) => {
    const [name, kind] = ROWS[key];
    const [top, bottom] = [key === keys[0] ? 20 : 0, key === keys.at(-1) ? 34 : 4];
    stage.panel(
      `<span class="wave-key ${kind}">${name}</span>: neighbors&nbsp;alike&nbsp;<b data-number="${key}"></b>`,
      `${name}: left, its bars along the ring; right, its mean power by mode, with a line at white noise.`,
      top + HIGH + bottom,
      (shown, w, h, { i }) => {
        const vectors = steps(shown.s)[key];
        const powers = vectors.map(relativePower);
        const power = powers[0].map((_, k) => mean(powers.map((values) => values[k])));
        const [left, right, base] = [w / 2 - 8, w / 2 + 22, top + HIGH]; // where the ring ends, the modes begin
        const words = (x, y, content, anchor) => label(x, y, content, "small muted", anchor);
        const head = () =>
          words(0, 12, `gradient ${i} of ${waves.length}`, "start") +
          words(right, 12, `power, mean of ${waves.length}`, "start") +
          line(w - 96, 34, w - 80, 34, "common") +
          words(w, 38, "white noise", "end");
        const foot = () =>
          words(6, base + 15, 0) +
          words(left / 2, base + 15, "channel") +
          words(left - 8, base + 15, n - 1) +
          each(power, (_, k) => words(right + ((w - right) * (k + 0.5)) / power.length, base + 15, k)) +
          words((right + w) / 2, base + 31, "mode, slow to fast");
        return (
          chart(vectors[i - 1], 0, left, base - HIGH / 2, 12, kind) +
          chart(power, right, w - right, base, 15, kind) +
          line(right, base - 15, w, base - 15, "common") +
          words(right - 5, base - 11, 1, "end") +
          (key === keys[0] ? head() : "") +
          (key === keys.at(-1) ? foot() : "")
        );
      },
    );
  });
  stage.slider("s", "s", "smoothness", { min: 0, max: 2, step: 0.25, digits: 2, glide: true });
  stage.slider("i", "i", "gradient on the left", { min: 1, max: waves.length });
  stage.button("another gradient", () => stage.set({ i: (stage.state.i % waves.length) + 1 }));
  stage.hint(
    "Neighbors alike: the mean of <i>x<sub>i</sub>x<sub>i+1</sub></i> over that of <i>x<sub>i</sub><sup>2</sup></i> " +
      "around the ring; 1 if all channels are equal, 0 in white noise. Powers are relative to white noise. " +
      `Both are means over ${waves.length} gradients.`,
  );
  keys.forEach((key) => stage.number(key, `${ROWS[key][0]}, neighbors alike`));
  stage.begin((state) =>
    Object.fromEntries(keys.map((key) => [key, mean(steps(state.s)[key].map(neighborsAlike))])),
  );
};
