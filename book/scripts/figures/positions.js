import { range } from "../formulas.js";
import { each, graph, label, line, spread, text } from "../svg.js";

/** (text) Loss by position in windows longer than those of training; one line an encoding. */
export default (stage) => {
  const { bits, step, trained } = stage.state;
  const KINDS = {
    none: "muted",
    sinusoidal: "fifth",
    learned: "sixth",
    rope: "q",
    roll: "k",
    "continuous-roll": "k",
    "roll-twin": "fourth",
    "multiplexed-roll": "third",
  };
  const DASHES = ["none", "8 3", "2 3", "9 3 2 3", "14 4"]; // lines of one color
  const looks = {};
  const seen = {};
  Object.keys(bits).forEach((name) => {
    const kind = KINDS[name.split(",")[0]] || "ink";
    seen[kind] = (seen[kind] ?? -1) + 1;
    looks[name] = [kind, `stroke-dasharray="${DASHES[seen[kind] % DASHES.length]}"`];
  });
  const last = Math.max(0, ...Object.values(bits).map((values) => values.length)) * step;
  stage.panel(
    "bits per character, by position in the window",
    "Lines of loss against position, one an encoding. A vertical line marks the trained length, dotted ones its multiples.",
    (narrow) => (narrow ? 260 : 320),
    (s, w, h, state) => {
      const shown = Object.keys(bits).filter((name) => state.on.includes(name));
      const longest = stage.narrow ? 0 : Math.max(0, ...shown.map((name) => name.length));
      const [left, right, top, bottom] = [26, w - 16 - 7 * longest, 6, h - 36];
      const all = shown.flatMap((name) => bits[name]);
      const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
      const x = (p) => left + (p / last) * (right - left);
      const y = (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - top);
      const ticks = range(Math.floor(high) - Math.ceil(low) + 1).map((i) => Math.ceil(low) + i);
      const multiples = range(Math.floor(last / trained) + 1).map((i) => i * trained);
      const ends = shown.map((name) => y(bits[name].at(-1)));
      const room = Math.min(15, (bottom - top - 4) / Math.max(1, ends.length - 1));
      const heights = spread(ends, room, top + 4, bottom);
      return (
        each(
          ticks,
          (value) =>
            line(left, y(value), right, y(value), "grid") +
            label(left - 6, y(value) + 4, value, "small muted", "end"),
        ) +
        each(multiples, (p) => line(x(p), top, x(p), bottom, p === trained ? "axis" : "mark")) +
        each(
          multiples.filter(
            (p) => p === 0 || p === trained || p === last || (!stage.narrow && p % (2 * trained) === 0),
          ),
          (p) => label(x(p), bottom + 16, p, "small muted"),
        ) +
        label((left + right) / 2, h - 4, "position in the window", "small muted") +
        line(x(s.p + step / 2), top, x(s.p + step / 2), bottom, "cursor") +
        each(shown, (name) =>
          graph(
            range(bits[name].length),
            (i) => x((i + 0.5) * step),
            (i) => y(bits[name][i]),
            `curve ${looks[name][0]}`,
            looks[name][1],
          ),
        ) +
        (stage.narrow
          ? ""
          : each(range(shown.length), (i) =>
              label(right + 6, heights[i] + 4, shown[i], `small named ${looks[shown[i]][0]}`, "start"),
            ))
      );
    },
  );
  stage.slider("p", "p", "position", { min: 0, max: last - step, step });
  stage.number("bits", `bits at <i>p</i> to <i>p</i> + ${step - 1}`);
  stage.switches(
    "on",
    "encodings",
    Object.fromEntries(
      Object.entries(looks).map(([name, [kind, dash]]) => [
        name,
        `<svg class="wave-swatch" viewBox="0 0 28 8" aria-hidden="true">${line(0, 4, 28, 4, `curve ${kind}`, dash)}</svg> ${name}`,
      ]),
    ),
  );
  stage.begin(({ p, on }) => ({
    bits: Object.keys(bits)
      .filter((name) => on.includes(name))
      .map((name) => `${name} ${text(bits[name][p / step])}`)
      .join("; "),
  }));
};
