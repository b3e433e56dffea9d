/* The still of a moving figure: what its stage shows before the scripts of the page run, without them, and on paper.
   The build calls it with the name of the figure and gives [start, data] as JSON:

       echo '[{"n": 9, "p": 2}, {}]' | node still.js ring

   Here: a stage without a document. It keeps drawings and numbers and ignores whatever moves them. */

import { each, text } from "./svg.js";

const WIDTHS = { full: 710, half: 349, pair: 349, third: 229, cells: 240 }; // pixels, as on a wide page

/** Stands for all that a still leaves out: takes every call and every value, and has every property. */
const nothing = new Proxy(() => nothing, { get: () => nothing, set: () => true });
globalThis.document = { currentScript: { src: "file:///_static/waves.js" }, createElement: nothing };

const [name, [state, data]] = [process.argv[2], JSON.parse(await new Response(process.stdin).text())];
const [panels, kinds] = [[], ["wave-panels"]];
let shapes = "";

const still = {
  id: "still",
  state,
  numbers: {},
  narrow: false,
  panelBox: { classList: { add: (kind) => kinds.push(kind) } },
  define: (more) => (shapes += more),
  panel(title, alt, height, draw, size = "full") {
    const panel = { title, height, draw, size };
    panels.push(panel);
    return { parentElement: panel };
  },
  number: (key, _, digits = 2) => (still.numbers[key] = { value: {}, digits }),
  begin(read) {
    still.limit?.(state);
    const found = read(state);
    const told = (value, key) => (typeof value === "number" ? text(value, still.numbers[key].digits) : value);
    const number = (_, key) => `>${told(found[key], key)}`;
    const head = (title) => title.replace(/<\/?a\b[^>]*>/g, "").replace(/ data-number=.([\w-]+).>/g, number);
    const shown = panels.filter(({ hidden }) => !hidden);
    const drawings = each(shown, ({ title, height, draw, size }) => {
      const wide = WIDTHS[kinds[1] ?? size];
      const high = typeof height === "function" ? height(false, state) : height;
      const drawing = draw(state, wide, high, state);
      const svg = `<svg viewBox="0 0 ${wide} ${high}" style="max-width: ${wide}px">${drawing}</svg>`;
      return `<div class="wave-panel ${size}">${title && `<p class="wave-head">${head(title)}</p>`}${svg}</div>`;
    });
    const defined = shapes && `<div class="wave-defs"><svg width="0" height="0"><defs>${shapes}</defs></svg></div>`;
    process.stdout.write(`<div class="${kinds.join(" ")}">${drawings}</div>${defined}`);
  },
};

const { default: figure } = await import(`./figures/${name}.js`);
figure(new Proxy(still, { get: (of, key) => (key in of ? of[key] : nothing) }), data);
