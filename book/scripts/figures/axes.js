import { axialRoll, bump, dot, mod, range, TAU, torusRoll } from "../formulas.js";
import { bars, box, cells, circle, clamp, each, label, line, px, signed } from "../svg.js";

/** (e) Two rings, or one sheet. */
export default (stage) => {
  const n = 32; // channels on each of two rings; the sheet has as many as both
  const side = 8;
  const reach = 7;
  const spread = (m) => (m / (TAU * 1.1)) ** 2; // a bump 1.1 channels wide on any ring
  const long = bump(n, 0, spread(n));
  const short = bump(side, side / 2, spread(side));
  const sheet = short.flatMap((a) => short.map((b) => a * b));
  const rings = (d) => dot([...long, ...long], axialRoll([long, long], d)) / Math.sqrt(64);
  const torus = (d) => dot(sheet, torusRoll(sheet, d, [side, side])) / Math.sqrt(64);
  const NAMES = ["down", "right"];
  const ring = (axis, kind) =>
    stage.panel(
      `${["one ring", "another ring"][axis]}: <i>Δ<sub>${"yx"[axis]}</sub></i>`,
      `A ring of ${n} channels, rolled by the offset along axis ${axis}.`,
      190,
      (s, w, h, state) => {
        const [cx, cy] = [w / 2, h / 2];
        const steps = s[`d${axis}`];
        return (
          circle(cx, cy, 54, "rim") +
          bars(cx, cy, 54, 32, long, 0, "ghost") +
          bars(cx, cy, 54, 32, long, steps, kind) +
          label(cx, cy - 2, NAMES[axis], `${kind} small strong`) +
          label(cx, cy + 15, signed(state[`d${axis}`]), `${kind} strong`)
        );
      },
      "third",
    );
  const offsets = range(2 * reach + 1).map((i) => i - reach);
  /** Where a map of all offsets is: the size of a cell, its left and upper edge; room for labels beside it. */
  const frame = (w, h) => {
    const cell = Math.min((w - 52) / offsets.length, (h - 38) / offsets.length);
    const side = cell * offsets.length;
    return { cell, side, left: (w - side) / 2 + 16, top: 10 };
  };
  const map = (title, score, kind) => {
    const high = score([0, 0]);
    const shares = offsets.map((a) => offsets.map((b) => score([a, b]) / high));
    const svg = stage.panel(
      `${title} <b data-number="${kind}"></b>`,
      `A map of ${title} over all offsets.`,
      190,
      (s, w, h) => {
        const { cell, side, left, top } = frame(w, h);
        const at = (d) => (d + reach) * cell;
        const ticks = each([-reach, 0, reach], (d) => {
          const middle = at(d) + cell / 2;
          return (
            line(left + middle, top + side, left + middle, top + side + 4, "tick") +
            label(left + middle, top + side + 16, signed(d), "small muted") +
            line(left - 4, top + middle, left, top + middle, "tick") +
            label(left - 7, top + middle + 4, signed(d), "small muted", "end")
          );
        });
        const name = (axis) => `Δ<tspan dy="3" font-size="75%">${axis}</tspan>`;
        return (
          ticks +
          label(left + at(4) + cell / 2, top + side + 16, name("x"), "small strong") +
          label(left - 7, top + at(-4) + cell / 2 + 4, name("y"), "small strong", "end") +
          cells(shares, left, top, side, side, "third") +
          box(left, top, side, side, "edge") +
          box(left + at(s.d1), top + at(s.d0), cell, cell, "frame")
        );
      },
      "third map",
    );
    stage.drag(svg, (x, y, w, h) => {
      const { cell, left, top } = frame(w, h);
      const place = (at) => clamp(Math.floor(at / cell) - reach, -reach, reach);
      stage.set({ d0: place(y - top), d1: place(x - left) });
    });
    stage.number(kind, title, 3);
  };
  ring(0, "q");
  ring(1, "k");
  map("score of two rings", rings, "rings");
  stage.panel(
    `sheet of ${side} × ${side}`,
    "A sheet of channels with a bright patch; what leaves at one edge comes back at the opposite one.",
    190,
    (s, w, h) => {
      const cell = 19;
      const wide = cell * side;
      const [left, top] = [(w - wide) / 2, (h - wide) / 2];
      const [right, bottom] = [left + wide, top + wide];
      // Channel (r, c) is seen at (r − Δ0, c − Δ1); what leaves at one edge is drawn at the other as well.
      const copies = (i, steps) => {
        const place = mod(i - steps, side);
        return place > side - 1 ? [place, place - side] : [place];
      };
      const patch = each(sheet, (value, channel) =>
        value < 0.005
          ? ""
          : each(copies(Math.floor(channel / side), s.d0), (r) =>
              each(copies(channel % side, s.d1), (c) =>
                box(left + cell * c, top + cell * r, cell, cell, "cell third", `fill-opacity="${px(value)}"`),
              ),
            ),
      );
      const clip = `wave-sheet-${stage.id}`;
      const grid = each(range(side + 1), (i) => {
        const d = i * cell;
        return line(left, top + d, right, top + d, "grid") + line(left + d, top, left + d, bottom, "grid");
      });
      return (
        `<clipPath id="${clip}">${box(left, top, wide, wide, "")}</clipPath><g clip-path="url(#${clip})">${patch}</g>${grid}` +
        each([top, bottom], (y) => line(left, y, right, y, "glue k")) +
        each([left, right], (x) => line(x, top, x, bottom, "glue q"))
      );
    },
    "third",
  );
  stage.panel(
    "glued: a torus",
    "The same sheet as the skin of a torus.",
    190,
    (s, w, h) => torusPicture(sheet, side, s.d0, s.d1, w, h),
    "third",
  );
  map("score of the torus", torus, "torus");
  stage.slider("d0", "Δ<sub>y</sub>", "rows down", { min: -reach, max: reach, glide: true });
  stage.slider("d1", "Δ<sub>x</sub>", "columns right", { min: -reach, max: reach, glide: true });
  stage.begin(({ d0, d1 }) => ({ rings: rings([d0, d1]), torus: torus([d0, d1]) }));
};

/** The sheet as the skin of a torus, seen from the front and above: the pieces that face us, far ones first. */
const torusPicture = (sheet, side, d0, d1, w, h) => {
  const parts = 3; // pieces to a channel
  const m = side * parts;
  const size = Math.min(92, w / 2 - 2);
  const [R, r, tilt] = [0.67 * size, 0.33 * size, 0.95];
  const corner = (u, v) => {
    const [a, b] = [TAU * (u / m - 0.5), TAU * (v / m - 0.2)]; // the middle of the sheet is in front, above
    const out = R + r * Math.cos(b);
    const [x, y, z] = [out * Math.sin(a), out * Math.cos(a), r * Math.sin(b)];
    return [
      w / 2 + x,
      h / 2 + y * Math.cos(tilt) - z * Math.sin(tilt),
      y * Math.sin(tilt) + z * Math.cos(tilt),
    ];
  };
  const grid = range(m + 1).map((u) => range(m + 1).map((v) => corner(u, v)));
  const pieces = [];
  range(m).forEach((u) =>
    range(m).forEach((v) => {
      const [a, b, c, d] = [grid[u][v], grid[u + 1][v], grid[u + 1][v + 1], grid[u][v + 1]];
      if ((c[0] - a[0]) * (d[1] - b[1]) - (c[1] - a[1]) * (d[0] - b[0]) >= 0) return; // it faces away
      const value =
        sheet[mod(Math.floor(v / parts + d0), side) * side + mod(Math.floor(u / parts + d1), side)];
      pieces.push({ corners: [a, b, c, d], depth: a[2] + c[2], value });
    }),
  );
  return each(
    pieces.sort((one, other) => one.depth - other.depth),
    ({ corners, value, depth }) => {
      const d = `d="M${corners.map(([x, y]) => `${px(x)} ${px(y)}`).join("L")}Z"`;
      const shade = 0.06 + 0.12 * clamp(0.5 - depth / (4 * size), 0, 1);
      return (
        `<path class="skin" ${d}/><path class="shade" ${d} fill-opacity="${px(shade)}"/>` +
        (value > 0.01 ? `<path class="cell third" ${d} fill-opacity="${px(value)}"/>` : "")
      );
    },
  );
};
