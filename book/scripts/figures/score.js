import { bump, range, scores } from "../formulas.js";
import { circle, clamp, each, label, line, path, signed } from "../svg.js";

/** (c) The score as a function of the offset, for several encodings. */
export default (stage) => {
  const { q, k } = stage.state;
  const n = q[0].length;
  const reach = 24;
  const lump = range(2).map(() => bump(n, 0, 6));
  const pair = (state) => (state.content === "bump" ? [lump, lump] : [q, k]);
  const curves = {
    roll: ["roll", "q", false],
    theorem: ["RoPE of the theorem", "k", true],
    multiplexed: ["multiplexed roll, W = 2, halved", "third", false],
    rope: ["rope, geometric speeds", "fourth", true],
    sinusoidal: ["sinusoidal code with itself", "fifth", true],
  };
  const value = (name, state, delta) =>
    scores[name](...pair(state), delta, state.p) / (name === "multiplexed" ? 2 : 1);
  const whole = range(2 * reach + 1).map((i) => i - reach);
  const fine = range(16 * reach + 1).map((i) => i / 8 - reach);
  const kept = {}; // a curve changes with the contents and, if multiplexed, with the query's position
  const curve = (name, state, places) => {
    const key = [name, places.length, state.content, name === "multiplexed" ? state.p : ""].join();
    return (kept[key] ||= places.map((d) => [d, value(name, state, d)]));
  };
  const highest = (state) =>
    Math.max(
      ...Object.keys(curves).flatMap((name) =>
        curve(name, { ...state, p: 0 }, whole).map(([, score]) => Math.abs(score)),
      ),
    );
  const x = (delta, w) => 12 + ((delta + reach) / (2 * reach)) * (w - 24);
  const isLast = (name, { on }) => name === on[on.length - 1];
  Object.entries(curves).forEach(([name, [title, kind, real]]) => {
    const svg = stage.panel(
      `<span class="wave-key ${kind}">${title}</span> <b data-number="${name}"></b>`,
      `Score against offset for ${title}.`,
      (_, state) => (isLast(name, state) ? 96 : 66),
      (s, w, h, state) => {
        const [middle, tall] = state.content === "bump" ? [50, 42] : [33, 28];
        const most = highest(state);
        const y = (v) => middle - clamp(v / most, -1.15, 1.15) * tall;
        const steps = curve(name, state, whole).map(([d, v]) => [x(d, w), y(v)]);
        const dots = each(steps, ([cx, cy]) => circle(cx, cy, 2, `dot ${kind}`));
        const wave = real
          ? path(
              curve(name, state, fine).map(([d, v]) => [x(d, w), y(v)]),
              `curve ${kind}`,
            )
          : each(steps, ([cx, cy]) => line(cx, middle, cx, cy, `stem ${kind}`));
        const turns =
          name === "roll" || name === "theorem"
            ? each([-n, n], (d) => line(x(d, w), 4, x(d, w), 62, "mark"))
            : "";
        const at = `query at ${state.p}, key at ${signed(state.p + state.delta)}`;
        const ticks = isLast(name, state)
          ? each([-16, 0, 16], (d) => label(x(d, w), 80, signed(d), "small muted")) +
            label(x(8, w), 92, "offset Δ", "small muted") +
            label(12, 92, at, "small muted", "start")
          : "";
        return (
          turns +
          line(x(-reach, w), middle, x(reach, w), middle, "axis") +
          line(x(0, w), 4, x(0, w), 62, "axis") +
          wave +
          dots +
          line(x(s.delta, w), 0, x(s.delta, w), 66, "cursor") +
          circle(x(state.delta, w), y(value(name, state, state.delta)), 5, `dot ring ${kind}`) +
          ticks
        );
      },
    );
    stage.drag(svg, (at, _, w) =>
      stage.set({ delta: clamp(Math.round(((at - 12) / (w - 24)) * 2 * reach - reach), -reach, reach) }),
    );
    stage.number(name, title, 3);
  });
  stage.slider("delta", "Δ", "offset of the key", { min: -reach, max: reach });
  stage.slider("p", "p", "position of the query", { min: 0, max: n - 1 });
  stage.choice("content", "query and key", { random: "random", bump: "two equal bumps" });
  stage.switches(
    "on",
    "curves",
    Object.fromEntries(
      Object.entries(curves).map(([name, [title, kind]]) => [
        name,
        `<span class="wave-key ${kind}">${title}</span>`,
      ]),
    ),
  );
  stage.begin((s) => {
    Object.keys(curves).forEach((name, i) => {
      stage.panels[i].svg.parentElement.hidden = !s.on.includes(name);
    });
    return Object.fromEntries(Object.keys(curves).map((name) => [name, value(name, s, s.delta)]));
  });
};
