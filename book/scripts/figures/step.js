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
  const bar = (x, width, zero, y, kind) => box(x, Math.min(zero, y), width, Math.abs(y - zero), `cell ${kind}`);
  const LARGEST = { entry: 3.3, power: 5.3 }; // of these gradients, at every smoothness
  const HIGH = 80;
  keys.forEach((key) => {
    const [name, kind] = ROWS[key];
    const [top, bottom] = [key === keys[0] ? 20 : 0, key === keys.at(-1) ? 34 : 4];
    stage.panel(
      `<span class="wave-key ${kind}">${name}</span>: neighbors&nbsp;alike&nbsp;<b data-number="${key}"></b>`,
      `${name}: left, its bars along the ring; right, its mean power by mode, with a line at white noise.`,
      top + HIGH + bottom,
      (shown, w, h, state) => {
        const vectors = steps(shown.s)[key];
        const powers = vectors.map(relativePower);
        const middle = w / 2;
        const [place, mode] = [(middle - 8) / n, (middle - 22) / (n / 2 + 1)];
        const [zero, base] = [top + HIGH / 2, top + HIGH];
        const one = base - HIGH / LARGEST.power;
        const x = (k) => middle + 22 + k * mode;
        const foot = (at, content) => label(at, base + 15, content, "small muted");
        const heads =
          label(0, 12, `gradient ${state.i} of ${waves.length}`, "small muted", "start") +
          label(x(0), 12, `power, mean of ${waves.length}`, "small muted", "start") +
          line(w - 96, 34, w - 80, 34, "common") +
          label(w, 38, "white noise", "small muted", "end");
        const feet =
          foot(place / 2, 0) +
          foot(place * (n - 0.5), n - 1) +
          foot(middle / 2, "channel") +
          each(range(n / 2 + 1), (k) => foot(x(k) + mode / 2, k)) +
          label((middle + 22 + w) / 2, base + 31, "mode, slow to fast", "small muted");
        return (
          each(vectors[state.i - 1], (value, j) =>
            bar(j * place + 1, place - 2, zero, zero - (value * HIGH) / 2 / LARGEST.entry, kind),
          ) +
          line(0, zero, place * n, zero, "axis") +
          each(range(n / 2 + 1), (k) => {
            const power = mean(powers.map((values) => values[k]));
            return bar(x(k) + 2, mode - 4, base, base - (power * HIGH) / LARGEST.power, kind);
          }) +
          line(x(0), base, w, base, "axis") +
          line(x(0), one, w, one, "common") +
          label(x(0) - 5, one + 4, 1, "small muted", "end") +
          (top ? heads : "") +
          (bottom > 4 ? feet : "")
        );
      },
    );
  });
  stage.slider("s", "s", "smoothness", { min: 0, max: 2, step: 0.25, digits: 2, glide: true });
  stage.slider("i", "i", "gradient on the left", { min: 1, max: waves.length });
  stage.button("another gradient", () => stage.set({ i: (stage.state.i % waves.length) + 1 }));
  stage.hint(
    "Neighbors alike: the mean of <i>x</i><sub>i</sub><i>x</i><sub>i+1</sub> over that of <i>x</i><sub>i</sub>² " +
      "around the ring; 1 if all channels are equal, 0 in white noise. Powers are relative to white noise. " +
      `Both are means over ${waves.length} gradients.`,
  );
  keys.forEach((key) => stage.number(key, `${ROWS[key][0]}, neighbors alike`));
  stage.begin((state) =>
    Object.fromEntries(keys.map((key) => [key, mean(steps(state.s)[key].map(neighborsAlike))])),
  );
};
