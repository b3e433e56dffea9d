import { continuousRoll, norm, nyquistPlace, pulse, range, roll, subtract, through } from "../formulas.js";
import { circle, each, element, graph, label, line } from "../svg.js";

/** (b) Between integer positions; what an even ring does with its Nyquist mode. */
export default (stage) => {
  const NAMES = {
    fixed: "stands still",
    cosine: "shrinks and swells",
    paired: "turns into that of a second ring",
  };
  const start = (n, treatment) => pulse(treatment === "paired" ? 2 * n : n, Math.floor(n / 2));
  const moved = (n, p, treatment) => continuousRoll(start(n, treatment), p, 1, treatment);
  const strip = (values, target, left, width, top, height, kind) => {
    const n = values.length;
    const x = (i) => left + (width * (i + 0.5)) / n;
    const y = (value) => top + (height * (1.06 - value)) / 1.5;
    const fine = range(12 * n + 1).map((i) => i / 12 - 0.5);
    const wave = through(values);
    const smooth = norm(values) > 1e-9 ? graph(fine, x, (i) => y(wave(i)), `curve thin ${kind}`) : "";
    return (
      line(left, y(0), left + width, y(0), "axis") +
      smooth +
      each(target, (value, i) => circle(x(i), y(value), 5.5, "target")) +
      each(
        values,
        (value, i) =>
          line(x(i), y(0), x(i), y(value), `stem ${kind}`) + circle(x(i), y(value), 3.2, `dot ${kind}`),
      )
    );
  };
  const plane = (cx, cy, p, treatment, state) => {
    const r = 34;
    const [u, v] = nyquistPlace(p, treatment);
    const whole = Math.abs(state.p - Math.round(state.p)) < 1e-9;
    const wanted = whole ? circle(cx + r * Math.cos(Math.PI * Math.round(state.p)), cy, 7, "target") : "";
    const track = {
      fixed: "",
      cosine: line(cx - r, cy, cx + r, cy, "way"),
      paired: circle(cx, cy, r, "way"),
    }[treatment];
    return (
      circle(cx, cy, r, "face") +
      line(cx - r - 6, cy, cx + r + 6, cy, "axis") +
      line(cx, cy - r - 6, cx, cy + r + 6, "axis") +
      track +
      line(cx, cy, cx + r * u, cy - r * v, "hand odd-one") +
      circle(cx + r * u, cy - r * v, 4.5, "dot odd-one") +
      wanted +
      label(cx, cy + r + 22, "Nyquist mode", "small strong") +
      label(cx, cy - r - 12, treatment === "paired" ? "ring 2 ↑" : "", "small muted")
    );
  };
  const draw = (parity) => (s, w, h, state) => {
    const even = parity === "even";
    const n = even ? state.n + 1 : state.n;
    const treatment = even ? state.nyquist : "fixed";
    const values = moved(n, s.p, treatment);
    const target = roll(pulse(n, Math.floor(n / 2)), Math.round(s.p));
    const wide = w - 112;
    const second =
      values.length > n
        ? strip(values.slice(n), [], 4, wide, 136, 74, "k") + label(4, 150, "second ring", "small k", "start")
        : "";
    return (
      strip(values.slice(0, n), target, 4, wide, 6, 138, even ? "odd-one" : "q") +
      second +
      (even
        ? plane(w - 52, 66, s.p, treatment, state)
        : label(w - 52, 62, "no", "small muted") + label(w - 52, 78, "Nyquist mode", "small muted"))
    );
  };
  const head = (parity) =>
    `<b data-number="${parity}-n"></b> channels: ${parity}<span data-number="${parity}-says"></span>`;
  stage.panel(
    head("odd"),
    "A pulse on an odd ring, moved by p channels. Between integer positions it is a smooth wave with ripples.",
    150,
    draw("odd"),
  );
  stage.panel(
    head("even"),
    "The same pulse on an even ring, and the place of its Nyquist mode.",
    (_, state) => (state.nyquist === "paired" ? 214 : 150),
    draw("even"),
  );
  stage.slider("p", "p", "position", { min: 0, max: 4, step: 0.05, digits: 2 });
  stage.slider("n", "n", "odd; the even ring has one more", { min: 3, max: 13, step: 2 });
  stage.choice("nyquist", "Nyquist mode of the even ring", {
    fixed: "fixed",
    cosine: "cosine",
    paired: "paired",
  });
  stage.player("p", { min: 0, max: 4, step: 0.05, beat: 90 });
  ["odd-n", "even-n", "odd-says", "even-says"].forEach((key) => stage.number(key, key, 0));
  const rows = ["odd", "even"];
  stage.table.replaceWith(
    (stage.table = element(
      "table",
      { class: "wave-table" },
      "<thead><tr><td></td><th scope='col'>length</th><th scope='col'>distance to the roll<br>at <i>p</i> = <b data-number='whole'></b></th><th scope='col'>distance of two steps<br>of <i>p</i>/2 to one of <i>p</i></th></tr></thead>" +
        each(
          rows,
          (key) =>
            `<tr><th scope="row">${key}</th>${each(["length", "off", "halves"], (what) => `<td data-number="${key}-${what}"></td>`)}</tr>`,
        ),
    )),
  );
  stage.number("whole", "nearest integer position", 0);
  const words = {
    length: "length",
    off: "distance to the roll",
    halves: "distance of two half steps to one step",
  };
  const promised = { length: 1, off: 0, halves: 0 };
  rows.forEach((key) =>
    Object.entries(words).forEach(([what, name]) => stage.number(`${key}-${what}`, `${key}, ${name}`, 3)),
  );
  const promises = (n, p, treatment) => {
    const whole = Math.round(p);
    const there = moved(n, p, treatment);
    const twice = continuousRoll(moved(n, p / 2, treatment), p / 2, 1, treatment);
    const rolled = roll(pulse(n, Math.floor(n / 2)), whole);
    const target = treatment === "paired" ? [...rolled, ...range(n).map(() => 0)] : rolled;
    return {
      length: norm(there),
      off: norm(subtract(moved(n, whole, treatment), target)),
      halves: norm(subtract(twice, there)),
    };
  };
  stage.begin(({ n, p, nyquist }) => {
    const found = {
      "odd-n": n,
      "even-n": n + 1,
      "odd-says": "",
      "even-says": `; its Nyquist mode ${NAMES[nyquist]}`,
      whole: Math.round(p),
    };
    [
      ["odd", n, "fixed"],
      ["even", n + 1, nyquist],
    ].forEach(([parity, channels, treatment]) =>
      Object.entries(promises(channels, p, treatment)).forEach(([what, value]) => {
        found[`${parity}-${what}`] = value;
        const kept = Math.abs(value - promised[what]) < 1e-9;
        stage.numbers[`${parity}-${what}`].value.className = kept ? "kept" : "broken";
      }),
    );
    return found;
  });
};
