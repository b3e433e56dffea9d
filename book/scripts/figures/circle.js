import {
  apparentFrequency,
  eigenvalueCount,
  norm,
  period,
  range,
  residueFrequencies,
  ringFrequencies,
  ropeFrequencies,
  ropeScore,
  similarityKernel,
  twistedFrequencies,
} from "../formulas.js";
import { circle, each, element, graph, label, line } from "../svg.js";

/** (circle) A list of angles to choose or to draw, its kernel, and the lines of Python that build it. */
export default (stage) => {
  const { random, contents } = stage.state;
  const reach = 128;
  const lists = {
    geometric: ["geometric (RoPE)", (m) => ropeFrequencies(2 * m)],
    ring: ["ring (RollPE)", (m) => ringFrequencies(2 * m - 1)],
    twisted: ["twisted ring", (m) => twistedFrequencies(2 * m)],
    residues: ["two rings, <i>m</i> ± 1", residueFrequencies],
    random: ["random", (m) => random.slice(0, m)],
    own: ["your own", (m, own) => range(m).map((i) => own[i] ?? 0)],
  };
  const chosen = ({ list, m, own }) => lists[list][1](m, own);
  const angles = (state) => chosen(state).map((omega) => omega / state.wavelength);
  const degrees = (omega) => (180 / Math.PI) * apparentFrequency(omega);
  let { degree } = stage.state; // as last shown: another one was moved by hand
  stage.limit = (state) => {
    state.i = Math.min(state.i, state.m - 1);
    if (state.degree !== degree) {
      state.own = chosen(state);
      state.own[state.i] = (Math.PI / 180) * state.degree * state.wavelength;
      state.list = "own";
    }
    degree = state.degree = degrees(angles(state)[state.i]);
  };

  const svg = stage.panel(
    "<i>e<sup>±iω</sup></i> on the unit circle<span class='on-screen'>: drag a point</span>",
    "The unit circle with a filled point at each angle, joined to its mirror image, a hollow point.",
    250,
    (s, w, h, state) => {
      const [cx, cy, radius] = [w / 2, h / 2, Math.min(w, h) / 2 - 26];
      const at = (angle, away = radius) => [cx + away * Math.cos(angle), cy - away * Math.sin(angle)];
      const all = angles(state);
      const one = all[state.i];
      const [left, base] = at(one, radius + 18);
      return (
        circle(cx, cy, radius, "rim") +
        line(...at(0), ...at(Math.PI), "axis") +
        each(all, (omega) => line(...at(omega), ...at(-omega), "grid")) +
        line(cx, cy, ...at(one), "hand-thin") +
        each(all, (omega) => circle(...at(-omega), 4, "dot hollow k")) +
        each(all, (omega) => circle(...at(omega), 4.5, "dot k")) +
        circle(...at(one), 9, "target") +
        label(left, base + 4, state.i, "small strong")
      );
    },
    "half",
  );
  const angleAt = ([x, y, w, h]) => Math.abs(Math.atan2(h / 2 - y, x - w / 2));
  stage.pointer(svg, "grip", {
    down: (place) => {
      const away = angles(stage.state).map((omega) => Math.abs(apparentFrequency(omega) - angleAt(place)));
      stage.set({ i: away.indexOf(Math.min(...away)) });
    },
    move: (place) => stage.set({ degree: Math.round(degrees(angleAt(place))) }),
  });

  stage.panel(
    '<span class="wave-key k">kernel</span>; gray: three random queries and keys',
    "The kernel against the offset from 0 to 128, in front of the scores of three random queries and keys.",
    250,
    (s, w, h, state) => {
      const all = angles(state);
      const [left, right, bottom] = [24, w - 14, h - 36];
      const x = (delta) => left + (delta / reach) * (right - left);
      const y = (score) => 14 + ((1 - score) / 2) * (bottom - 14);
      const offsets = range(reach + 1);
      const score = ([q, k]) => {
        const [a, b] = [q.slice(0, 2 * state.m), k.slice(0, 2 * state.m)];
        return (delta) => y(ropeScore(a, b, delta, all) / (norm(a) * norm(b)));
      };
      const last = x(state.G - 1);
      return (
        line(left, y(0), right, y(0), "axis") +
        each([1, 0, -1], (value) =>
          label(left - 6, y(value) + 4, `${value}`.replace("-", "−"), "small muted", "end"),
        ) +
        each(contents, (pair) => graph(offsets, x, score(pair), "curve muted thin")) +
        graph(offsets, x, (delta) => y(similarityKernel(delta, all)), "curve k") +
        line(last, 14, last, bottom, "mark") +
        label(last + 5, bottom - 4, "<tspan class='math'>G</tspan> − 1", "small muted", "start") +
        each([0, 64, 128], (delta) => label(x(delta), bottom + 16, delta, "small muted")) +
        label(w / 2, h - 4, "offset Δ", "small muted")
      );
    },
    "half",
  );

  stage.slider("m", "m", "pairs of channels", { min: 4, max: 16, step: 2 });
  stage.slider("wavelength", "λ", "divides all angles", { min: 0.25, max: 4, step: 0.05, digits: 2 });
  stage.slider("G", "G", "tokens of the row", { min: 4, max: 32 });
  stage.slider("i", "i", "pair to move", { min: 0, max: 15 });
  stage.slider("degree", "ω<sub>i</sub>", "its angle, in degrees", { min: 0, max: 180, digits: 1 });
  const words = Object.entries(lists).map(([name, [word]]) => [name, word]);
  stage.choice("list", "list of angles", Object.fromEntries(words), stage.below());
  stage.number("period", "repeats after", 0);
  stage.number("functions", "functions of the offset");
  const code = element("pre", { tabindex: 0, role: "group", "aria-label": "Python that builds it" });
  stage.root.append(code);
  const copy = (made) => {
    getSelection().selectAllChildren(code);
    made.textContent = document.execCommand("copy") ? "copied" : "press Ctrl C";
    setTimeout(() => (made.textContent = "copy"), 2000);
  };
  stage.button("copy", copy, stage.root);
  stage.begin((state) => {
    const all = angles(state);
    const [count, most] = [eigenvalueCount(all), 2 * state.G - 1];
    code.textContent = `from rollpe.encodings import create_encoding
frequencies = [${all.join(", ")}]
encoding = create_encoding("rope", head_dim=${2 * state.m}, heads=1, axes=1, frequencies=frequencies)`;
    return {
      period: period(all) || "not within 5000",
      functions: count < most ? `${count} of ${most}` : `${most} of ${most}, complete`,
    };
  });
};
