import { channelCorrelations, nearAndAny, range } from "../formulas.js";
import { box, circle, clamp, diverging, each, label, line, path, text } from "../svg.js";

/** (map) Correlations of channels over training: RollPE's and its twin's, at moments that records hold. */
export default (stage, { runs, rings }) => {
  const ARMS = { roll: "RollPE", "roll-twin": "its rotary twin" };
  const KINDS = { roll: "k", "roll-twin": "fourth" };
  const names = Object.keys(ARMS);
  const LAYERS = {
    all: (count) => range(count),
    first: () => [0],
    middle: (count) => [count >> 1],
    last: (count) => [count - 1],
  };
  const heads = Object.values(runs)[0].roll.maps[0][0].length;
  const last = Object.values(runs)[0].roll.steps.length - 1;

  /** The matrix at a moment: the mean over the chosen layers and heads, computed once. */
  const known = {};
  const matrix = (state, name, t) => {
    const key = [state.run, state.layer, state.head, name, t].join();
    return (known[key] ||= computed(state, name, t));
  };
  const computed = ({ run, layer, head }, name, t) => {
    const layers = runs[run][name].maps[t];
    const chosen = LAYERS[layer](layers.length).flatMap((l) =>
      head === "all" ? layers[l] : [layers[l][head.slice(1) - 1]],
    );
    const total = chosen[0].map((_, pair) => chosen.reduce((sum, one) => sum + one[pair], 0));
    return channelCorrelations(total.map((value) => value / (chosen.length * rings)));
  };
  /** Between two moments, while one fades into the next. */
  const blended = (state, name, t) => {
    const [low, share] = [Math.floor(t), t - Math.floor(t)];
    const [from, to] = [low, Math.min(low + 1, last)].map((at) => matrix(state, name, at));
    return from.map((row, i) => row.map((value, j) => value + share * (to[i][j] - value)));
  };

  names.forEach((name) => {
    stage.panel(
      `<span class="wave-key ${KINDS[name]}">${ARMS[name]}</span><br>neighbors <b data-number="${name}"></b>, any two <b data-number="${name}-any"></b>`,
      `A matrix of the correlations of ${ARMS[name]}'s channels, in their order on the ring.`,
      (narrow) => (narrow ? 176 : 300),
      (s, w, h, state) => {
        const r = blended(state, name, clamp(s.t, 0, last));
        const n = r.length;
        const side = n * Math.floor(Math.min(w - 22, h - 20) / n);
        const [left, top] = [22 + (w - 22 - side) / 2, 2];
        const place = (i) => ((i + 0.5) * side) / n;
        const ticks = range(4).map((i) => (i * n) / 4);
        return (
          diverging(r, left, top, side, side) +
          box(left, top, side, side, "edge") +
          each(
            ticks,
            (i) =>
              label(left - 5, top + place(i) + 4, i, "small muted", "end") +
              label(left + place(i), top + side + 15, i, "small muted"),
          )
        );
      },
      "pair",
    );
    stage.number(name, `${ARMS[name]}, neighbors`);
    stage.number(`${name}-any`, `${ARMS[name]}, any two`);
  });

  /** Where the drawing of the score has its steps and correlations. */
  const frame = (w, h, state) => {
    const { steps, epoch } = runs[state.run].roll;
    const scores = names.map((name) => range(last + 1).map((t) => nearAndAny(matrix(state, name, t))));
    const all = scores.flat(2);
    const [low, high] = [Math.min(-0.1, ...all), Math.max(0.5, ...all)];
    const [left, right, top, bottom] = [30, w - (stage.narrow ? 12 : 100), 8, h - 34];
    return {
      ...{ scores, steps, epoch, left, right, top, bottom },
      x: (step) => left + (step / steps[last]) * (right - left),
      y: (value) => bottom - ((value - low) / (high - low)) * (bottom - top),
      ticks: range(11)
        .map((i) => (i - 5) / 5)
        .filter((value) => value >= low && value <= high),
    };
  };
  const score = stage.panel(
    "<b data-number='moment'></b>. Correlation of neighbors over training; dotted: of any two channels",
    "Two lines over the epochs, RollPE's and its twin's, and a dotted line for each.",
    (narrow) => (narrow ? 170 : 190),
    (s, w, h, state) => {
      const { scores, steps, epoch, left, right, top, bottom, x, y, ticks } = frame(w, h, state);
      const t = clamp(s.t, 0, last);
      const at = steps[Math.floor(t)] + (t % 1) * (steps[Math.ceil(t)] - steps[Math.floor(t)]);
      const epochs = steps[last] / epoch;
      const marks = range(5).map((i) => (i * epochs) / 4);
      return (
        each(
          ticks,
          (value) =>
            line(left, y(value), right, y(value), value === 0 ? "axis" : "grid") +
            label(left - 5, y(value) + 4, text(value, 1), "small muted", "end"),
        ) +
        each(marks, (mark) => label(x(mark * epoch), bottom + 15, +mark.toFixed(2), "small muted")) +
        label((left + right) / 2, h - 3, "epoch", "small muted") +
        line(x(at), top, x(at), bottom, "cursor") +
        each(scores, (values, i) => {
          const kind = KINDS[names[i]];
          const [near, any] = [0, 1].map((which) =>
            values.map((both, moment) => [x(steps[moment]), y(both[which])]),
          );
          return (
            path(any, `curve thin ${kind}`, 'stroke-dasharray="2 3"') +
            path(near, `curve ${kind}`) +
            each(near, ([cx, cy], moment) => circle(cx, cy, moment === state.t ? 5 : 2.5, `dot ${kind}`)) +
            (stage.narrow
              ? ""
              : label(right + 8, near[last][1] + 4, ARMS[names[i]], `small named ${kind}`, "start"))
          );
        })
      );
    },
  );
  stage.drag(score, (px, py, w, h) => {
    const { steps, x } = frame(w, h, stage.state);
    const distance = (t) => Math.abs(x(steps[t]) - px);
    stage.set({ t: range(last + 1).reduce((best, t) => (distance(t) < distance(best) ? t : best)) });
  });

  stage.slider("t", "t", "moment of training", { min: 0, max: last, glide: true });
  stage.player("t", { min: 0, max: last, beat: 700, period: () => last + 1 });
  stage.choice("run", "images", Object.fromEntries(Object.keys(runs).map((name) => [name, name])));
  const all = "mean of all";
  const below = stage.below();
  stage.choice("layer", "layer", { all, first: "first", middle: "middle", last: "last" }, below);
  const eachHead = Object.fromEntries(range(heads).map((head) => [`h${head + 1}`, head + 1]));
  stage.choice("head", "head", { all, ...eachHead }, below);
  const scale = diverging([range(9).map((i) => (i - 4) / 4)], 0, 0, 108, 10);
  stage.hint(
    `correlation −1 <svg class="wave-scale" viewBox="0 0 108 10" aria-hidden="true">${scale}</svg> 1`,
  );
  stage.number("moment", "moment");
  stage.begin((state) => {
    const { steps, epoch } = runs[state.run].roll;
    const step = steps[state.t];
    const found = { moment: `Step ${step} of ${steps[last]}, epoch ${text(step / epoch, 1)}` };
    names.forEach((name) => {
      [found[name], found[`${name}-any`]] = nearAndAny(matrix(state, name, state.t));
    });
    return found;
  });
};
