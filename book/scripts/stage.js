/* The stage of a moving figure: its sliders, drawings and numbers.

   Here: what listens and what draws anew. A figure is one function that adds sliders and panels and returns its
   numbers for a state. Panels are drawn from the state whenever it changes; `shown` is the state on its way
   there, for what may be seen to move. Not here: the figures (figures/), the values that sliders start from
   (the {wave} directive writes them into the page). */

import { clamp, element, plain, text } from "./svg.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const GLIDE = 260; // ms from one integer position to the next
const BEAT = 900; // ms a position when playing

let count = 0;

const LATEX = { "<sub>": "_{", "<sup>": "^{", "</sub>": "}", "</sup>": "}", Δ: "\\Delta ", "√": "\\sqrt " };

/** Draw the symbols of an element in the type of the page's formulas, if the page has any, once those are drawn. */
const typeset = async (root) => {
  if (document.readyState !== "complete") await new Promise((resolve) => addEventListener("load", resolve));
  if (!window.MathJax) return;
  await MathJax.startup.promise;
  root.querySelectorAll("i").forEach((symbol) => {
    const latex = symbol.innerHTML.replace(/<.*?>|[Δ√]/g, (sign) => LATEX[sign]);
    const math = `<span class="math" aria-hidden="true">\\(${latex}\\)</span>`;
    symbol.innerHTML = `<span class="visually-hidden">${symbol.textContent}</span>${math}`;
  });
  await MathJax.typesetPromise([root]);
  root.querySelectorAll("mjx-container").forEach((drawn) => drawn.removeAttribute("tabindex"));
};

export class Stage {
  constructor(root) {
    this.root = root;
    this.id = count += 1;
    this.state = JSON.parse(root.dataset.start || "{}");
    this.shown = { ...this.state };
    this.glides = new Set();
    this.panels = [];
    this.inputs = {};
    this.numbers = {};
    this.panelBox = element("div", { class: "wave-panels" });
    this.controls = element("div", { class: "wave-controls" });
    this.table = element("dl", { class: "wave-numbers" });
    this.news = element("p", { class: "wave-news", "aria-live": "polite" });
    root.replaceChildren(this.panelBox, this.controls, this.table, this.news);
  }

  /** A slider for state[key]; `glide` lets the drawings follow smoothly instead of jumping. */
  slider(key, symbol, name, { min, max, step = 1, digits = 0, glide = false }) {
    const id = `wave-${(count += 1)}`;
    const tag = element("label", { for: id }, `<i>${symbol}</i> <span>${name}</span>`);
    const input = element("input", {
      type: "range",
      id,
      min,
      max,
      step,
      value: this.state[key],
      "data-key": key,
    });
    const output = element("output", { for: id });
    input.addEventListener("input", () => {
      this.pause();
      this.set({ [key]: Number(input.value) });
    });
    const row = element("div", { class: "wave-slider" });
    row.append(tag, input, output);
    this.controls.append(row);
    if (glide) this.glides.add(key);
    this.inputs[key] = (value) => {
      input.value = value;
      output.textContent = text(value, digits);
      input.setAttribute("aria-valuetext", `${plain(symbol)} = ${text(value, digits)}`);
    };
  }

  /** One of a few words for state[key]; `place` may be a row `below`. */
  choice(key, name, words, place = this.controls) {
    const group = element("fieldset", { class: "wave-choice" }, `<legend>${name}</legend>`);
    const group_id = `wave-${(count += 1)}`;
    Object.entries(words).forEach(([value, word]) => {
      const input = `<input type="radio" name="${group_id}" value="${value}" data-key="${key}">`;
      const option = element("label", {}, `${input} ${word}`);
      option.firstChild.addEventListener("input", () => this.set({ [key]: value }));
      group.append(option);
    });
    place.append(group);
    this.inputs[key] = (value) => group.querySelectorAll("input").forEach((one) => (one.checked = one.value === value));
  }

  /** Keep state[key] of these keys in the address of the page; begin with those that it has, and follow it. */
  keep(keys) {
    this.kept = keys;
    const follow = () => {
      const given = [...new URLSearchParams(location.hash.slice(1))].filter(([key]) => keys.includes(key));
      const typed = ([key, value]) => [key, typeof this.state[key] === "number" ? Number(value) : value];
      return Object.fromEntries(given.map(typed));
    };
    Object.assign(this.state, follow());
    addEventListener("hashchange", () => {
      this.set(follow());
      this.root.scrollIntoView({ block: "nearest" });
    });
  }

  /** A line under the sliders. */
  hint(html) {
    const made = element("p", { class: "wave-hint" }, html);
    this.table.before(made);
    return made;
  }

  /** A row for what needs not stay in view on a phone. */
  below() {
    const row = element("div", { class: "wave-below" });
    this.table.before(row);
    return row;
  }

  /** Shapes that drawings name by their ids. */
  define(shapes) {
    const svg = `<svg width="0" height="0"><defs>${shapes}</defs></svg>`;
    this.root.append(element("div", { class: "wave-defs", "aria-hidden": "true" }, svg));
  }

  button(word, press, place = this.controls) {
    const made = element("button", { type: "button", class: "wave-button" }, word);
    made.addEventListener("click", () => press(made));
    place.append(made);
    return made;
  }

  /** A drawing: draw(shown, width, height, state) gives SVG as text; `size` names its share of the width. */
  panel(title, alt, height, draw, size = "full") {
    const holder = element("div", { class: `wave-panel ${size}` });
    if (title) holder.append(element("p", { class: "wave-head" }, title));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", alt);
    holder.append(svg);
    this.panelBox.append(holder);
    this.panels.push({ svg, height, draw });
    return svg;
  }

  /** A number under the drawings, or in the head of a panel that has <b data-number="key">. */
  number(key, name, digits = 2) {
    let value = this.root.querySelector(`[data-number="${key}"]`);
    if (!value) {
      value = element("dd", { "data-number": key });
      const pair = element("div", {}, `<dt>${name}</dt>`);
      pair.append(value);
      this.table.append(pair);
    }
    this.numbers[key] = { value, name: plain(name), digits };
  }

  /** Dragging on a drawing: move(x, y, width, height) in pixels of the drawing. */
  drag(svg, move) {
    const follow = (place) => {
      this.pause();
      move(...place);
    };
    this.pointer(svg, "draggable", { down: follow, move: follow });
  }

  /** Dragging that carries a drawing along: pull(dx, dy, from, …) in pixels since the press, in the state `from`;
      or a press alone: tap(x, y, …). Both also get width and height of the drawing. */
  grip(svg, { tap, pull }) {
    let start = null;
    this.pointer(svg, "grip", {
      down: (place) => (start = { place, state: { ...this.state }, pulled: false }),
      move: ([x, y, w, h]) => {
        const [dx, dy] = [x - start.place[0], y - start.place[1]];
        start.pulled ||= Math.hypot(dx, dy) > 5;
        if (start.pulled) pull(dx, dy, start.state, w, h);
      },
      up: () => start.pulled || tap(...start.place),
    });
  }

  /** What a pointer does from its press until it is lifted; each gets [x, y, width, height] in pixels. */
  pointer(svg, kind, { down, move, up = () => {} }) {
    const listen = (type, act) =>
      svg.addEventListener(type, (event) => {
        if (type === "pointerdown") svg.setPointerCapture(event.pointerId);
        const frame = svg.getBoundingClientRect();
        const place = [event.clientX - frame.left, event.clientY - frame.top, frame.width, frame.height];
        if (svg.hasPointerCapture(event.pointerId)) act(place);
      });
    svg.classList.add(kind);
    listen("pointerdown", down);
    listen("pointermove", move);
    listen("pointerup", up);
  }

  /** A button that moves state[key] on by itself, there and back, or around where `period` steps change nothing. */
  player(key, { min, max, step = 1, beat = BEAT, period = 0 }) {
    let direction = 1;
    const advance = () => {
      if (this.visible === false) return;
      const ahead = this.state[key] + direction * step;
      const over = ahead > max || ahead < min;
      const lap = over && period ? period(this.state) : 0;
      if (over && !lap) direction = -direction;
      this.shown[key] -= lap;
      const next = over && !lap ? this.state[key] + direction * step : ahead - lap;
      this.set({ [key]: clamp(+next.toFixed(6), min, max) }, beat > GLIDE ? GLIDE * 2 : beat);
    };
    const made = this.button("", () => (this.timer ? this.pause() : this.play()));
    const name = () => {
      const [sign, word] = this.timer ? ["❚❚", "pause"] : ["▶", "play"];
      made.innerHTML = `<span aria-hidden='true'>${sign}</span> ${word}`;
    };
    this.play = () => {
      this.timer = setInterval(advance, beat);
      this.root.dataset.playing = "yes";
      name();
    };
    this.pause = () => {
      clearInterval(this.timer);
      this.timer = 0;
      delete this.root.dataset.playing;
      name();
    };
    name();
  }

  pause() {}

  set(change, time = GLIDE) {
    Object.assign(this.state, change);
    if (this.limit) this.limit(this.state);
    const kept = this.kept?.map((key) => [key, this.state[key]]);
    if (kept) history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
    this.from = { ...this.shown };
    this.begun = performance.now();
    this.time = calm.matches ? 0 : time;
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.move(now));
    this.tell();
  }

  move(now) {
    const done = this.time ? clamp((now - this.begun) / this.time, 0, 1) : 1;
    const eased = this.time < GLIDE ? done : done * done * (3 - 2 * done);
    Object.entries(this.state).forEach(([key, value]) => {
      this.shown[key] =
        done < 1 && this.glides.has(key) ? this.from[key] + eased * (value - this.from[key]) : value;
    });
    this.draw();
    this.frame = done < 1 ? requestAnimationFrame((later) => this.move(later)) : 0;
  }

  draw() {
    this.narrow = this.panelBox.clientWidth < 560;
    const widths = this.panels.map(({ svg }) => svg.clientWidth); // all read before anything is written
    this.panels.forEach(({ svg, height, draw }, i) => {
      const width = widths[i];
      if (width < 80) return; // not laid out yet; it is drawn when its size is known
      const high = typeof height === "function" ? height(this.narrow, this.state) : height;
      svg.setAttribute("viewBox", `0 0 ${width} ${high}`);
      svg.style.height = `${high}px`;
      svg.innerHTML = draw(this.shown, width, high, this.state);
    });
  }

  /** Numbers and slider values, at once; for listeners a sentence when the hand has come to rest. */
  tell() {
    Object.entries(this.inputs).forEach(([key, show]) => show(this.state[key]));
    const found = this.read(this.state);
    Object.entries(this.numbers).forEach(([key, { value, digits }]) => {
      value.textContent = typeof found[key] === "number" ? text(found[key], digits) : found[key];
    });
    clearTimeout(this.later);
    if (this.timer || !this.frame) return; // nothing to say while it plays, or before anything was moved
    this.later = setTimeout(() => {
      this.news.textContent = Object.values(this.numbers)
        .map(({ value, name }) => `${name}: ${value.textContent}`)
        .join("; ");
    }, 500);
  }

  begin(read) {
    this.read = read;
    if (this.limit) this.limit(this.state);
    this.shown = { ...this.state };
    this.root.closest("figure").classList.add("live");
    this.tell();
    this.draw();
    typeset(this.root);
    new ResizeObserver(() => this.draw()).observe(this.panelBox);
    new IntersectionObserver(([entry]) => {
      this.visible = entry.isIntersecting;
    }).observe(this.root);
    if (this.play && "moving" in this.root.dataset && !calm.matches) this.play();
  }
}
