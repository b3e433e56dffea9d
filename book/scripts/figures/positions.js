import { range } from "../formulas.js";
import { each, graph, label, line, spread, text } from "../svg.js";

const KINDS = ["q", "k", "third", "fourth", "fifth", "sixth"];

/** (text) Loss by position in windows longer than those of training; one line an encoding. */
export default (stage) => {
  const { bits, groups, step, trained } = stage.state;
  /** The encodings of a group, by the first word of their names, and RollPE to compare them with. */
  const shownIn = (group) =>
    Object.keys(bits).filter((name) => name === "roll" || groups[group].includes(name.split(",")[0]));
  const last = Math.max(0, ...Object.values(bits).map((values) => values.length)) * step;
  const all = Object.values(bits).flat();
  const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  stage.panel(
    "bits per character, by position in the window",
    "Lines of loss against position, one an encoding. A vertical line marks the trained length, dotted ones its multiples.",
    (narrow) => (narrow ? 260 : 320),
    (s, w, h, { group }) => {
      const shown = shownIn(group);
      const others = shown.filter((name) => name !== "roll");
      const kind = (name) => KINDS[others.indexOf(name)] ?? "muted";
      /** On a phone there is room for the option alone: the group says of what. */
      const short = (name) => (stage.narrow ? name.split(", ").at(-1) : name);
      const longest = Math.max(0, ...shown.map((name) => short(name).length));
      const [left, right, top, bottom] = [26, w - 12 - 7 * longest, 6, h - 36];
      const x = (p) => left + (p / last) * (right - left);
      const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
      const ticks = range(Math.floor(high) - Math.ceil(low) + 1).map((i) => Math.ceil(low) + i);
      const multiples = range(Math.floor(last / trained) + 1).map((i) => i * trained);
      const named = multiples.filter((p) => p === trained || p % (4 * trained) === 0);
      const heights = spread(
        shown.map((name) => y(bits[name].at(-1))),
        15,
        top + 4,
        bottom,
      );
      return (
        each(
          ticks,
          (value) =>
            line(left, y(value), right, y(value), "grid") +
            label(left - 6, y(value) + 4, value, "small muted", "end"),
        ) +
        each(multiples, (p) => line(x(p), top, x(p), bottom, p === trained ? "axis" : "mark")) +
        each(named, (p) => label(x(p), bottom + 16, p, "small muted")) +
        label((left + right) / 2, h - 4, "position in the window", "small muted") +
        line(x(s.p + step / 2), top, x(s.p + step / 2), bottom, "cursor") +
        each(shown, (name, i) => {
          const curve = graph(
            range(bits[name].length),
            (at) => x((at + 0.5) * step),
            (at) => y(bits[name][at]),
            `curve ${kind(name)}`,
          );
          return curve + label(right + 6, heights[i] + 4, short(name), `small named ${kind(name)}`, "start");
        })
      );
    },
  );
  stage.slider("p", "p", "position", { min: 0, max: last - step, step });
  stage.choice("group", "encodings", Object.fromEntries(Object.keys(groups).map((name) => [name, name])));
  stage.number("bits", `bits at <i>p</i> to <i>p</i> + ${step - 1}`);
  stage.begin(({ p, group }) => ({
    bits: shownIn(group)
      .map((name) => `${name} ${text(bits[name][p / step])}`)
      .join("; "),
  }));
};
