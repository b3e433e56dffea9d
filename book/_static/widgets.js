/* The moving figures: each <div class="wave-stage" data-wave="ring"> becomes sliders, drawings and numbers.

   Here: what is drawn and what listens. Not here: formulas (waves.js), colors and sizes (waves.css), captions and the
   values that the sliders start from (the {wave} directive writes them into the page).

   A wave is one function (stage) that adds sliders and panels and returns its numbers for a state. Panels are drawn
   anew from the state whenever it changes; `shown` is the state on its way there, for what may be seen to move. */
"use strict";

const drawWaves = () => {
  const { range, mod, norm, add, subtract, roll, bump } = Waves;
  const TAU = 2 * Math.PI;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const GLIDE = 260; // ms from one whole position to the next
  const BEAT = 900; // ms a position when playing

  // ------------------------------------------------------------------------------------------ small tools

  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  /** A number as it is read on the page, with a real minus and no −0. */
  const text = (value, digits = 2) => {
    const rounded = value.toFixed(digits);
    return (Number(rounded) === 0 ? Math.abs(value).toFixed(digits) : rounded).replace("-", "−");
  };
  const element = (tag, attributes = {}, html = "") => {
    const node = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    node.innerHTML = html;
    return node;
  };
  const plain = (html) => html.replace(/<[^>]+>/g, "");

  // Pieces of SVG, as text.
  const each = (items, draw) => items.map(draw).join("");
  const px = (value) => +value.toFixed(2);
  const line = (x1, y1, x2, y2, kind, more = "") =>
    `<line x1="${px(x1)}" y1="${px(y1)}" x2="${px(x2)}" y2="${px(y2)}" class="${kind}" ${more}/>`;
  const circle = (x, y, r, kind) => `<circle cx="${px(x)}" cy="${px(y)}" r="${px(r)}" class="${kind}"/>`;
  const box = (x, y, w, h, kind, more = "") =>
    `<rect x="${px(x)}" y="${px(y)}" width="${px(w)}" height="${px(h)}" class="${kind}" ${more}/>`;
  /** A map of rows of shares in [0, 1], fitted into w × h; its cells share their edges. */
  const cells = (rows, left, top, w, h, kind) => {
    const x = (i) => Math.round(left + (w * i) / rows[0].length);
    const y = (i) => Math.round(top + (h * i) / rows.length);
    return each(rows, (row, r) =>
      each(row, (share, c) =>
        share < 0.005
          ? ""
          : box(
              x(c),
              y(r),
              x(c + 1) - x(c),
              y(r + 1) - y(r),
              `cell ${kind}`,
              `fill-opacity="${px(Math.min(share, 1))}"`,
            ),
      ),
    );
  };
  const label = (x, y, content, kind = "", anchor = "middle") =>
    `<text x="${px(x)}" y="${px(y)}" text-anchor="${anchor}" class="${kind}">${content}</text>`;
  const path = (points, kind, more = "") =>
    `<path d="M${points.map(([x, y]) => `${px(x)} ${px(y)}`).join("L")}" class="${kind}" ${more}/>`;
  const raised = (base, exponent) =>
    `${base}<tspan dy="-0.42em" font-size="72%">${exponent}</tspan><tspan dy="0.3em">&#8203;</tspan>`;
  const signed = (value) => text(value, 0);

  /** Where channel i stands on a ring: 0 on top, then clockwise. */
  const onRing = (cx, cy, radius, i, n) => [
    cx + radius * Math.sin((TAU * i) / n),
    cy - radius * Math.cos((TAU * i) / n),
  ];

  /** Bars around a ring, moved by `steps` channels: the value of channel j is seen at j − steps. */
  const bars = (cx, cy, radius, reach, values, steps, kind, marked = -1) => {
    const n = values.length;
    const width = Math.min(15, (0.6 * TAU * radius) / n);
    return each(values, (value, j) => {
      const from = onRing(cx, cy, radius, j - steps, n);
      const to = onRing(cx, cy, radius + reach * value, j - steps, n);
      return line(...from, ...to, `bar ${j === marked ? "marked" : kind}`, `stroke-width="${px(width)}"`);
    });
  };

  /** A dial: a hand at `angle`, counted against the clock from the top, and the sector that it has swept. */
  const dial = (x, y, r, angle, share, kind) => {
    const swept = mod(angle, TAU);
    const at = (a, length) => [x - length * Math.sin(a), y - length * Math.cos(a)];
    const [ex, ey] = at(swept, r);
    const sector = `<path class="swept" d="M${px(x)} ${px(y)}V${px(y - r)}A${r} ${r} 0 ${swept > Math.PI ? 1 : 0} 0 ${px(ex)} ${px(ey)}Z"/>`;
    return (
      circle(x, y, r, "face") +
      sector +
      line(...at(0, r - 4), ...at(0, r + 3), "tick") +
      line(x, y, ex, ey, "hand-thin") +
      line(x, y, ...at(swept, r * share), `hand ${kind}`) +
      circle(x, y, 2.5, "pin")
    );
  };

  // ------------------------------------------------------------------------------------------ the stage

  let count = 0;

  class Stage {
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

    /** One of a few words for state[key]. */
    choice(key, name, words) {
      const group = element("fieldset", { class: "wave-choice" }, `<legend>${name}</legend>`);
      const group_id = `wave-${(count += 1)}`;
      Object.entries(words).forEach(([value, word]) => {
        const option = element(
          "label",
          {},
          `<input type="radio" name="${group_id}" value="${value}" data-key="${key}"> ${word}`,
        );
        option.firstChild.checked = this.state[key] === value;
        option.firstChild.addEventListener("input", () => this.set({ [key]: value }));
        group.append(option);
      });
      this.controls.append(group);
    }

    /** Any of a few words for state[key], under the numbers: on a phone there is no room for many over a drawing. */
    switches(key, name, words) {
      const group = element("fieldset", { class: "wave-choice wave-switches" }, `<legend>${name}</legend>`);
      Object.entries(words).forEach(([value, word]) => {
        const option = element(
          "label",
          {},
          `<input type="checkbox" value="${value}" data-key="${key}"> ${word}`,
        );
        const box = option.firstChild;
        box.checked = this.state[key].includes(value);
        box.addEventListener("input", () => {
          const on = (other) => (other === value ? box.checked : this.state[key].includes(other));
          this.set({ [key]: Object.keys(words).filter(on) });
        });
        group.append(option);
      });
      this.root.append(group);
    }

    button(word, press) {
      const made = element("button", { type: "button", class: "wave-button" }, word);
      made.addEventListener("click", () => press(made));
      this.controls.append(made);
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
    number(key, name, digits = 2, place = null) {
      const value = place || element("dd", { "data-number": key });
      if (!place) {
        const pair = element("div", {}, `<dt>${name}</dt>`);
        pair.append(value);
        this.table.append(pair);
      }
      this.numbers[key] = { value, name: plain(name), digits };
    }

    /** Dragging on a drawing: move(x, y) in pixels of the drawing. */
    drag(svg, move) {
      const follow = (event) => {
        const frame = svg.getBoundingClientRect();
        this.pause();
        move(event.clientX - frame.left, event.clientY - frame.top, frame.width, frame.height);
      };
      svg.classList.add("draggable");
      svg.addEventListener("pointerdown", (event) => {
        svg.setPointerCapture(event.pointerId);
        follow(event);
      });
      svg.addEventListener("pointermove", (event) => {
        if (svg.hasPointerCapture(event.pointerId)) follow(event);
      });
    }

    /** A button that moves state[key] on by itself, there and back, or around where `period` steps change nothing. */
    player(key, { min, max, step = 1, beat = BEAT, period = 0 }) {
      let direction = 1;
      const advance = () => {
        let next = this.state[key] + direction * step;
        if (period) {
          if (next > max) {
            this.shown[key] -= period(this.state);
            next -= period(this.state);
          }
        } else if (next > max || next < min) {
          direction = -direction;
          next = this.state[key] + direction * step;
        }
        this.set({ [key]: clamp(+next.toFixed(6), min, max) }, beat > GLIDE ? GLIDE * 2 : beat);
      };
      const made = this.button("", () => (this.timer ? this.pause() : this.play()));
      const name = () => {
        made.innerHTML = this.timer
          ? "<span aria-hidden='true'>❚❚</span> pause"
          : "<span aria-hidden='true'>▶</span> play";
      };
      this.play = () => {
        this.timer = setInterval(() => {
          if (this.visible !== false) advance();
        }, beat);
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
        this.news.textContent = Object.entries(this.numbers)
          .map(([key, { value, name }]) => `${name}: ${value.textContent}`)
          .join("; ");
      }, 500);
    }

    begin(read) {
      this.read = read;
      if (this.limit) this.limit(this.state);
      this.shown = { ...this.state };
      this.root.hidden = false;
      this.root.closest("figure").classList.add("live");
      this.tell();
      this.draw();
      new ResizeObserver(() => this.draw()).observe(this.panelBox);
      new IntersectionObserver(([entry]) => {
        this.visible = entry.isIntersecting;
      }).observe(this.root);
      if (this.play && "moving" in this.root.dataset && !calm.matches) this.play();
    }
  }

  // ------------------------------------------------------------------------------------------ the waves

  const waves = {};

  /** (index) Two tokens walk along a row; their rings turn, their score stays. */
  waves.walk = (stage) => {
    const n = 12;
    const G = 16;
    const reach = 4;
    const q = add(
      bump(n, 0, 6),
      bump(n, 7, 9).map((value) => 0.45 * value),
    );
    const k = bump(n, 2, 3);
    const score = (p, delta) => Waves.dot(roll(q, p), roll(k, p + delta)) / Math.sqrt(n);
    stage.panel(
      "",
      "A row of tokens. The query's and the key's ring of channels turn as their tokens move; a curve shows the score for every offset.",
      (narrow) => (narrow ? 286 : 290),
      (s, w, h, state) => {
        const size = Math.min(40, (w - 8) / G);
        const left = (w - size * G) / 2;
        const center = (position) => left + size * (position + 0.5);
        const key = state.p + state.delta;
        const tokens =
          each(range(G), (i) =>
            box(
              left + size * i + 2,
              26,
              size - 4,
              size - 4,
              i === state.p ? "token q" : i === key ? "token k" : "token",
              'rx="3"',
            ),
          ) +
          (state.delta ? label(center(state.p), 18, "<tspan class='math'>p</tspan>", "q strong") : "") +
          label(
            center(key),
            18,
            `<tspan class='math'>p</tspan>${state.delta ? ` ${state.delta < 0 ? "−" : "+"} ${Math.abs(state.delta)}` : ""}`,
            "k strong",
          );
        const radius = Math.min(58, w * 0.125);
        const reached = Math.min(30, radius / 2);
        const y = h - 52 - radius;
        const places = { q: w * 0.17, k: w * 0.83 };
        const arms =
          line(center(s.p), 24 + size, places.q, y - radius - reached - 8, "arm q") +
          line(center(s.p + s.delta), 24 + size, places.k, y - radius - reached - 8, "arm k");
        const ring = (kind, values, steps) =>
          circle(places[kind], y, radius, "rim") +
          bars(places[kind], y, radius, reached, values, steps, kind) +
          each(range(n), (i) => circle(...onRing(places[kind], y, radius, i, n), 1.6, "pin")) +
          label(places[kind], y + 5, kind === "q" ? "query" : "key", `${kind} strong`);
        const chart = { left: w * 0.36, right: w * 0.64, top: y - radius + 8, bottom: h - 26 };
        const c = range(n).map((d) => score(0, d));
        const wave = Waves.through(c);
        const cx = (d) => chart.left + ((d + reach) / (2 * reach)) * (chart.right - chart.left);
        const cy = (value) => chart.bottom - (value / Math.max(...c)) * (chart.bottom - chart.top);
        const fine = range(reach * 16 + 1).map((i) => -reach + i / 8);
        const curve =
          path(
            fine.map((d) => [cx(d), cy(wave(d))]),
            "curve muted",
          ) +
          each(range(2 * reach + 1), (i) => circle(cx(i - reach), cy(score(state.p, i - reach)), 3, "dot muted"));
        const height = cy(wave(s.delta));
        return (
          label(left, 18, "tokens", "small muted", "start") +
          tokens +
          arms +
          ring("q", q, s.p) +
          ring("k", k, s.p + s.delta) +
          line(chart.left - 6, chart.bottom, chart.right + 6, chart.bottom, "axis") +
          curve +
          line(cx(s.delta), chart.bottom, cx(s.delta), height, "stem") +
          circle(cx(s.delta), height, 6, "dot ink") +
          label(w / 2, h - 8, `offset Δ = ${signed(state.delta)}`, "small muted") +
          label(w / 2, chart.top - 16, "score", "strong")
        );
      },
    );
    stage.slider("p", "p", "both tokens", { min: reach, max: G - 1 - reach, glide: true });
    stage.slider("delta", "Δ", "key − query", { min: -reach, max: reach, glide: true });
    stage.player("p", { min: reach, max: G - 1 - reach });
    stage.number("score", "score (<i>S</i><sup>p</sup><i>q</i>)ᵀ <i>S</i><sup>p+Δ</sup><i>k</i> / √<i>n</i>", 4);
    stage.begin((s) => ({ score: score(s.p, s.delta) }));
  };

  /** (a) A roll beside its Fourier modes. */
  waves.ring = (stage) => {
    const query = (n) => bump(n, 0, 4);
    stage.panel(
      "the ring of channels",
      "Bars around a ring of channels: a bump that has moved from channel 0 against the clock.",
      (narrow) => (narrow ? 240 : 300),
      (s, w, h, state) => {
        const { n } = state;
        const [cx, cy, radius] = [w / 2, h / 2 + 2, h * 0.28];
        const reach = h * 0.17;
        const places = each(range(n), (i) => {
          const [x, y] = onRing(cx, cy, radius - 17, i, n);
          return circle(...onRing(cx, cy, radius, i, n), 2, "pin") + label(x, y + 4, i, "small muted");
        });
        const swept = mod(-s.p / n, 1) * TAU;
        const [ex, ey] = onRing(cx, cy, radius - 34, -s.p, n);
        const way =
          mod(s.p, n) < 0.02
            ? ""
            : `<path class="way" marker-end="url(#wave-arrow)" d="M${px(cx)} ${px(cy - radius + 34)}A${radius - 34} ${radius - 34} 0 ${swept < Math.PI ? 1 : 0} 0 ${px(ex)} ${px(ey)}"/>`;
        return (
          circle(cx, cy, radius, "rim") +
          bars(cx, cy, radius, reach, query(n), 0, "ghost") +
          places +
          bars(cx, cy, radius, reach, query(n), s.p, "q", 0) +
          way +
          label(
            cx,
            cy + 6,
            raised("<tspan class='math'>S</tspan>", state.p) + "<tspan class='math'>q</tspan>",
            "big",
          )
        );
      },
      "half",
    );
    stage.panel(
      "its Fourier modes: each hand and its turns",
      "Clock faces, one for each Fourier mode k. Hand k has turned k times as far as the ring.",
      (narrow, state) => (narrow ? 88 * Math.ceil((Math.floor(state.n / 2) + 1) / 5) : 300),
      (s, w, h, state) => {
        const { n } = state;
        const modes = Waves.spectrum(query(n)).map(([real]) => real);
        const columns = Math.min(stage.narrow ? 5 : modes.length > 4 ? 3 : 2, modes.length);
        const rows = Math.ceil(modes.length / columns);
        const r = Math.min(42, h / rows / 2 - 20, w / columns / 2 - 7);
        return each(modes, (size, i) => {
          const x = (w / columns) * ((i % columns) + 0.5);
          const y = (h / rows) * (Math.floor(i / columns) + 0.5) - 16;
          const turned = (Waves.ringFrequencies(n)[i] * state.p) / TAU;
          return (
            dial(x, y, r, Waves.ringFrequencies(n)[i] * s.p, size / modes[0], i === 1 ? "marked" : "q") +
            label(x, y + r + 17, `<tspan class="math">k</tspan> = ${i}`, "strong") +
            label(
              x,
              y + r + 32,
              `<tspan data-number="turns-${i}">${text(turned)}</tspan>${stage.narrow ? "" : " turns"}`,
              "small muted",
            )
          );
        });
      },
      "half",
    );
    stage.slider("p", "p", "position", { min: 0, max: 24, glide: true });
    stage.slider("n", "n", "channels", { min: 3, max: 17 });
    stage.player("p", { min: 0, max: 24, period: (state) => Math.floor(24 / state.n) * state.n });
    stage.number("first", "value of channel 0", 4);
    stage.number("overlap", "overlap with the start, <i>q</i>ᵀ<i>S</i><sup>p</sup><i>q</i> / ‖<i>q</i>‖²", 4);
    stage.begin(({ n, p }) => {
      const q = query(n);
      return { first: roll(q, p)[0], overlap: Waves.dot(q, roll(q, p)) / Waves.dot(q, q) };
    });
  };

  /** (b) Between whole positions; what an even ring does with its Nyquist mode. */
  waves.continuous = (stage) => {
    const NAMES = {
      fixed: "stands still",
      cosine: "shrinks and swells",
      paired: "turns into that of a second ring",
    };
    const start = (n, treatment) => Waves.pulse(treatment === "paired" ? 2 * n : n, Math.floor(n / 2));
    const moved = (n, p, treatment) => Waves.continuousRoll(start(n, treatment), p, 1, treatment);
    const strip = (values, target, left, width, top, height, kind) => {
      const n = values.length;
      const x = (i) => left + (width * (i + 0.5)) / n;
      const y = (value) => top + (height * (1.06 - value)) / 1.5;
      const fine = range(12 * n + 1).map((i) => i / 12 - 0.5);
      const wave = Waves.through(values);
      const smooth =
        norm(values) > 1e-9
          ? path(
              fine.map((i) => [x(i), y(wave(i))]),
              `curve thin ${kind}`,
            )
          : "";
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
      const [u, v] = Waves.nyquistPlace(p, treatment);
      const whole = Math.abs(state.p - Math.round(state.p)) < 1e-9;
      const wanted = whole ? circle(cx + r * Math.cos(Math.PI * Math.round(state.p)), cy, 7, "target") : "";
      const track = { fixed: "", cosine: line(cx - r, cy, cx + r, cy, "way"), paired: circle(cx, cy, r, "way") }[
        treatment
      ];
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
      const target = roll(Waves.pulse(n, Math.floor(n / 2)), Math.round(s.p));
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
      "A pulse on an odd ring, moved by p channels. Between whole positions it is a smooth wave with ripples.",
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
    ["odd-n", "even-n", "odd-says", "even-says"].forEach((key) =>
      stage.number(key, key, 0, stage.root.querySelector(`[data-number="${key}"]`)),
    );
    const rows = { odd: "odd", even: "even" };
    stage.table.replaceWith(
      (stage.table = element(
        "table",
        { class: "wave-table" },
        "<thead><tr><td></td><th scope='col'>length</th><th scope='col'>off the roll,<br><i>p</i> = <b data-number='whole'></b></th><th scope='col'>off after<br>two halves</th></tr></thead>" +
          each(
            Object.entries(rows),
            ([key, name]) =>
              `<tr><th scope="row">${name}</th>${each(["length", "off", "halves"], (what) => `<td data-number="${key}-${what}"></td>`)}</tr>`,
          ),
      )),
    );
    stage.number("whole", "nearest whole position", 0, stage.table.querySelector('[data-number="whole"]'));
    const words = { length: "length", off: "distance to the roll", halves: "two half steps against one" };
    const promised = { length: 1, off: 0, halves: 0 };
    Object.keys(rows).forEach((key) =>
      Object.entries(words).forEach(([what, name]) =>
        stage.number(
          `${key}-${what}`,
          `${key}, ${name}`,
          3,
          stage.table.querySelector(`[data-number="${key}-${what}"]`),
        ),
      ),
    );
    const promises = (n, p, treatment) => {
      const whole = Math.round(p);
      const there = moved(n, p, treatment);
      const twice = Waves.continuousRoll(moved(n, p / 2, treatment), p / 2, 1, treatment);
      const rolled = roll(Waves.pulse(n, Math.floor(n / 2)), whole);
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

  /** (c) The score as a function of the offset, for several encodings. */
  waves.score = (stage) => {
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
      Waves.scores[name](...pair(state), delta, state.p) / (name === "multiplexed" ? 2 : 1);
    const whole = range(2 * reach + 1).map((i) => i - reach);
    const fine = range(16 * reach + 1).map((i) => i / 8 - reach);
    const highest = {};
    const heights = (state) => {
      const key = state.content;
      if (!highest[key]) {
        highest[key] = Math.max(
          ...Object.keys(curves).flatMap((name) => whole.map((d) => Math.abs(value(name, { ...state, p: 0 }, d)))),
        );
      }
      return highest[key];
    };
    const kept = {}; // a curve changes with the contents and, if multiplexed, with the query's position
    const curve = (name, state, places) => {
      const key = [name, places.length, state.content, name === "multiplexed" ? state.p : ""].join();
      kept[key] = kept[key] || places.map((d) => [d, value(name, state, d)]);
      return kept[key];
    };
    const x = (delta, w) => 12 + ((delta + reach) / (2 * reach)) * (w - 24);
    Object.entries(curves).forEach(([name, [title, kind, real]], row) => {
      const last = row === Object.keys(curves).length - 1;
      const svg = stage.panel(
        `<span class="wave-key ${kind}">${title}</span> <b data-number="${name}"></b>`,
        `Score against offset for ${title}.`,
        last ? 96 : 66,
        (s, w, h, state) => {
          const middle = state.content === "bump" ? 50 : 33;
          const y = (v) => middle - clamp(v / heights(state), -1.15, 1.15) * (state.content === "bump" ? 42 : 28);
          const steps = curve(name, state, whole).map(([d, v]) => [x(d, w), y(v)]);
          const dots = each(steps, ([cx, cy]) => circle(cx, cy, 2, `dot ${kind}`));
          const wave = real
            ? path(
                curve(name, state, fine).map(([d, v]) => [x(d, w), y(v)]),
                `curve ${kind}`,
              )
            : each(steps, ([cx, cy]) => line(cx, middle, cx, cy, `stem ${kind}`));
          const turns =
            name === "roll" || name === "theorem" ? each([-n, n], (d) => line(x(d, w), 4, x(d, w), 62, "mark")) : "";
          const ticks = last
            ? each([-16, 0, 16], (d) => label(x(d, w), 80, signed(d), "small muted")) +
              label(x(8, w), 92, "offset Δ", "small muted")
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
      stage.number(name, title, 3, stage.root.querySelector(`[data-number="${name}"]`));
    });
    stage.slider("delta", "Δ", "offset of the key", { min: -reach, max: reach });
    stage.slider("p", "p", "position of the query", { min: 0, max: n - 1 });
    stage.choice("content", "query and key", { random: "random", bump: "two equal bumps" });
    stage.begin((s) => Object.fromEntries(Object.keys(curves).map((name) => [name, value(name, s, s.delta)])));
  };

  /** (d) Waves of several speeds on one ring. */
  waves.speeds = (stage) => {
    const KINDS = ["q", "k", "third", "fourth"];
    const shapes = ({ n, W }) => range(W).map(() => bump(n, 0, 7));
    const LAST = 17; // rows of the map
    stage.panel(
      "each wave on its ring, the sum outside",
      "Rings inside each other, one for each wave, and the ring of their sum. Wave w has moved w channels for each position.",
      322,
      (s, w, h, state) => {
        const [cx, cy] = [w / 2, h / 2];
        const { n, W } = state;
        const room = 78 / W;
        const inner = each(range(W), (i) => {
          const radius = 24 + room * i;
          return (
            circle(cx, cy, radius, "rim") +
            bars(cx, cy, radius, Math.min(room - 5, 36), shapes(state)[i], (i + 1) * s.p, KINDS[i]) +
            circle(...onRing(cx, cy, radius, -(i + 1) * s.p, n), 3.5, `dot ring ${KINDS[i]}`)
          );
        });
        const outer = 112;
        const alone = shapes(state).map(Waves.through);
        const total = range(n).map((place) => Waves.sum(alone.map((wave, i) => wave(place + (i + 1) * s.p))));
        return (
          inner +
          circle(cx, cy, outer, "rim") +
          bars(cx, cy, outer, 46 / W, total, 0, "ink") +
          each(range(n), (i) => circle(...onRing(cx, cy, outer, i, n), 2, "pin")) +
          label(cx, cy + 4, `<tspan class="math">p</tspan> = ${state.p}`, "small strong")
        );
      },
      "half",
    );
    const svg = stage.panel(
      "the sum at every position",
      "A map with a row for each position and a column for each channel. The waves cross; where they meet, the sum is large.",
      (narrow) => (narrow ? 240 : 330),
      (s, w, h, state) => {
        const { n, W } = state;
        const left = 54; // room for p = 16
        const [wide, high] = [(w - left - 6) / n, (h - 36) / LAST];
        const sums = range(LAST).map((p) => Waves.multiplexedRoll(shapes(state), p).map((value) => value / W));
        return (
          cells(sums, left, 4, wide * n, high * LAST, "q") +
          box(left - 2, 4 + s.p * high, wide * n + 4, high, "frame") +
          label(left - 8, 4 + s.p * high + high / 2 + 4, `p = ${state.p}`, "small strong", "end") +
          label(left, h - 14, "0", "small muted") +
          label(left + wide * n - wide / 2, h - 14, n - 1, "small muted") +
          label(left + (wide * n) / 2, h - 14, "channel", "small muted")
        );
      },
      "half",
    );
    stage.drag(svg, (_, at, __, h) =>
      stage.set({ p: clamp(Math.floor(((at - 4) / (h - 36)) * LAST), 0, LAST - 1) }),
    );
    stage.slider("p", "p", "position", { min: 0, max: LAST - 1, glide: true });
    stage.slider("W", "W", "waves", { min: 1, max: 4 });
    stage.slider("n", "n", "channels", { min: 8, max: 17 });
    stage.player("p", { min: 0, max: LAST - 1 });
    stage.number("length", "squared length of the sum", 3);
    stage.number("periods", "periods of the waves, <i>n</i>/gcd(<i>w</i>, <i>n</i>)");
    stage.begin((state) => {
      const total = Waves.multiplexedRoll(shapes(state), state.p);
      return {
        length: Waves.dot(total, total),
        periods: range(state.W)
          .map((i) => Waves.wavePeriod(state.n, i + 1))
          .join(", "),
      };
    });
  };

  /** (e) Two rings, or one sheet. */
  waves.axes = (stage) => {
    const n = 32; // channels on each of two rings; the sheet has as many as both
    const side = 8;
    const reach = 7;
    const spread = (m) => (m / (TAU * 1.1)) ** 2; // a bump 1.1 channels wide on any ring
    const long = bump(n, 0, spread(n));
    const short = bump(side, side / 2, spread(side));
    const sheet = short.flatMap((a) => short.map((b) => a * b));
    const rings = (d) => Waves.dot([...long, ...long], Waves.axialRoll([long, long], d)) / Math.sqrt(64);
    const torus = (d) => Waves.dot(sheet, Waves.torusRoll(sheet, d, [side, side])) / Math.sqrt(64);
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
    const map = (title, score, kind) => {
      const offsets = range(2 * reach + 1).map((i) => i - reach);
      const high = score([0, 0]);
      const shares = offsets.map((a) => offsets.map((b) => score([a, b]) / high));
      const svg = stage.panel(
        `${title} <b data-number="${kind}"></b>`,
        `A map of ${title} over all offsets.`,
        190,
        (s, w, h) => {
          const cell = Math.min((w - 20) / offsets.length, (h - 16) / offsets.length);
          const [left, top] = [(w - cell * offsets.length) / 2, (h - cell * offsets.length) / 2];
          const at = (d) => (d + reach) * cell;
          return (
            cells(shares, left, top, cell * offsets.length, cell * offsets.length, "third") +
            box(left, top, cell * offsets.length, cell * offsets.length, "edge") +
            box(left + at(s.d1), top + at(s.d0), cell, cell, "frame")
          );
        },
        "third map",
      );
      stage.drag(svg, (x, y, w, h) => {
        const cell = Math.min((w - 20) / offsets.length, (h - 16) / offsets.length);
        const place = (at, size) =>
          clamp(Math.floor((at - size / 2) / cell + offsets.length / 2) - reach, -reach, reach);
        stage.set({ d0: place(y, h), d1: place(x, w) });
      });
      stage.number(kind, title, 3, stage.root.querySelector(`[data-number="${kind}"]`));
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
        const [left, top] = [w / 2 - (cell * side) / 2, h / 2 - (cell * side) / 2];
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
        const grid = each(
          range(side + 1),
          (i) =>
            line(left, top + i * cell, left + side * cell, top + i * cell, "grid") +
            line(left + i * cell, top, left + i * cell, top + side * cell, "grid"),
        );
        return (
          `<clipPath id="${clip}">${box(left, top, cell * side, cell * side, "")}</clipPath><g clip-path="url(#${clip})">${patch}</g>${grid}` +
          line(left, top, left + cell * side, top, "glue k") +
          line(left, top + cell * side, left + cell * side, top + cell * side, "glue k") +
          line(left, top, left, top + cell * side, "glue q") +
          line(left + cell * side, top, left + cell * side, top + cell * side, "glue q")
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
      return [w / 2 + x, h / 2 + y * Math.cos(tilt) - z * Math.sin(tilt), y * Math.sin(tilt) + z * Math.cos(tilt)];
    };
    const grid = range(m + 1).map((u) => range(m + 1).map((v) => corner(u, v)));
    const pieces = [];
    range(m).forEach((u) =>
      range(m).forEach((v) => {
        const [a, b, c, d] = [grid[u][v], grid[u + 1][v], grid[u + 1][v + 1], grid[u][v + 1]];
        if ((c[0] - a[0]) * (d[1] - b[1]) - (c[1] - a[1]) * (d[0] - b[0]) >= 0) return; // it faces away
        const value = sheet[mod(Math.floor(v / parts + d0), side) * side + mod(Math.floor(u / parts + d1), side)];
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

  /** (f) Geometric and arithmetic frequencies, and what whole positions see of the fast ones. */
  waves.frequencies = (stage) => {
    const ring = ({ n, wavelength }) => Waves.ringFrequencies(n, wavelength).slice(0, n / 2); // pairs, as RoPE has
    const limit = (state) => Math.max(...ring(state), Math.PI * 1.15);
    stage.limit = (state) => {
      state.k = Math.min(state.k, state.n / 2 - 1);
    };
    stage.panel(
      "speeds, in radians per position",
      "Two rows of dots on an axis of angular frequency: RoPE's, and the ring's. Dots above π are joined to the slower frequency that they look like.",
      232,
      (s, w, h, state) => {
        const [left, right] = [14, w - 14];
        const logarithmic = state.axis === "logarithmic";
        const top = limit({ n: state.n, wavelength: s.wavelength });
        const low = Math.log10(5e-5);
        const x = (omega) =>
          logarithmic
            ? left + ((Math.log10(Math.max(omega, 5e-5)) - low) / (Math.log10(12) - low)) * (right - left)
            : left + (omega / top) * (right - left);
        const rows = { rope: 44, ring: 112, seen: 172 };
        const shown = ring({ n: state.n, wavelength: s.wavelength });
        const ticks = logarithmic
          ? [1e-4, 1e-3, 1e-2, 0.1, 1, Math.PI]
          : range(Math.floor(top / Math.PI) + 1).map((i) => i * Math.PI);
        const names = logarithmic ? ["10⁻⁴", "10⁻³", "0.01", "0.1", "1", "π"] : ["0", "π", "2π", "3π"];
        const zone =
          box(x(Math.PI), 20, right - x(Math.PI), 164, "zone") +
          label(Math.min((x(Math.PI) + right) / 2, right - 34), 16, "aliased", "small muted");
        const dots =
          each(Waves.ropeFrequencies(state.n), (omega) => circle(x(omega), rows.rope, 4, "dot q")) +
          each(shown, (omega, k) => {
            const seen = Waves.apparentFrequency(omega);
            const fast = omega > Math.PI;
            const way = fast
              ? `<path class="fold" d="M${px(x(omega))} ${rows.ring}C${px(x(omega))} ${rows.ring + 40} ${px(x(seen))} ${rows.seen - 40} ${px(x(seen))} ${rows.seen}"/>`
              : line(x(omega), rows.ring, x(omega), rows.seen, "fold");
            return (
              way +
              circle(x(omega), rows.ring, 4, fast ? "dot hollow k" : "dot k") +
              circle(x(seen), rows.seen, 4, fast ? "dot hollow k" : "dot k") +
              (k === state.k
                ? circle(x(omega), rows.ring, 8, "target") + circle(x(seen), rows.seen, 8, "target")
                : "")
            );
          });
        return (
          zone +
          each(Object.values(rows), (y) => line(left, y, right, y, "axis")) +
          dots +
          label(left, rows.rope - 12, "rope: geometric", "small q strong", "start") +
          label(left, rows.ring - 12, "roll: arithmetic", "small k strong", "start") +
          label(left, rows.seen + 20, "what whole positions see of it", "small k", "start") +
          each(
            ticks,
            (omega, i) =>
              label(clamp(x(omega), 12, w - 10), h - 8, names[i], "small muted") +
              line(x(omega), 184, x(omega), 210, "grid"),
          )
        );
      },
    );
    stage.panel(
      "one hand, seen at whole positions",
      "A fast wave and the slow wave through the same points at whole positions.",
      130,
      (s, w, h, state) => {
        const span = 10;
        const x = (p) => 14 + (p / span) * (w - 28);
        const y = (value) => 56 - 44 * value;
        const omega = ring({ n: state.n, wavelength: s.wavelength })[state.k];
        const seen = Waves.apparentFrequency(omega);
        const fine = range(601).map((i) => (i * span) / 600);
        return (
          line(x(0), y(0), x(span), y(0), "axis") +
          path(
            fine.map((p) => [x(p), y(Math.cos(omega * p))]),
            "curve thin k",
          ) +
          path(
            fine.map((p) => [x(p), y(Math.cos(seen * p))]),
            "curve seen",
          ) +
          each(
            range(span + 1),
            (p) => circle(x(p), y(Math.cos(omega * p)), 4.5, "dot ink") + label(x(p), h - 6, p, "small muted"),
          )
        );
      },
    );
    stage.slider("wavelength", "λ", "wavelength", { min: 0.3, max: 3, step: 0.01, digits: 2 });
    stage.slider("n", "n", "channels", { min: 8, max: 64, step: 2 });
    stage.slider("k", "k", "the hand below", { min: 0, max: 31 });
    stage.choice("axis", "axis", { linear: "linear", logarithmic: "logarithmic" });
    const special = Math.PI / Math.log(10000);
    stage.button(`near the paper's |<i>λ</i>| = π/ln 10000 = ${text(special, 3)}`, () =>
      stage.set({ wavelength: Math.round(special * 100) / 100 }),
    );
    stage.number("omega", "<i>ω</i><sub>k</sub>", 3);
    stage.number("seen", "seen as", 3);
    stage.number("aliased", "faster than π");
    stage.begin((state) => {
      const all = ring(state);
      const fast = all.filter((omega) => omega > Math.PI).length;
      return {
        omega: all[state.k],
        seen: Waves.apparentFrequency(all[state.k]),
        aliased: `${fast} of ${all.length}`,
      };
    });
  };

  /** (text) Loss by position in windows longer than those of training; one line an encoding. */
  waves.positions = (stage) => {
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
        const ends = shown.map((name) => [name, y(bits[name].at(-1))]).sort((a, b) => a[1] - b[1]);
        const room = Math.min(15, (bottom - top) / Math.max(1, ends.length - 1));
        ends.forEach((end, i) => (end[1] = Math.max(end[1], top + 4, i ? ends[i - 1][1] + room : 0)));
        ends.reverse().forEach((end, i) => (end[1] = Math.min(end[1], i ? ends[i - 1][1] - room : bottom)));
        return (
          each(ticks, (value) => line(left, y(value), right, y(value), "grid") + label(left - 6, y(value) + 4, value, "small muted", "end")) +
          each(multiples, (p) => line(x(p), top, x(p), bottom, p === trained ? "axis" : "mark")) +
          each(
            multiples.filter((p) => p === 0 || p === trained || p === last || (!stage.narrow && p % (2 * trained) === 0)),
            (p) => label(x(p), bottom + 16, p, "small muted"),
          ) +
          label((left + right) / 2, h - 4, "position in the window", "small muted") +
          line(x(s.p + step / 2), top, x(s.p + step / 2), bottom, "cursor") +
          each(shown, (name) =>
            path(
              bits[name].map((value, i) => [x((i + 0.5) * step), y(value)]),
              `curve ${looks[name][0]}`,
              looks[name][1],
            ),
          ) +
          (stage.narrow ? "" : each(ends, ([name, at]) => label(right + 6, at + 4, name, `small named ${looks[name][0]}`, "start")))
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

  // ------------------------------------------------------------------------------------------ begin

  const stages = [...document.querySelectorAll(".wave-stage[data-wave]")].filter(
    (root) => waves[root.dataset.wave],
  );
  if (!stages.length) return;
  document.body.append(
    element(
      "div",
      { class: "wave-defs", "aria-hidden": "true" },
      '<svg width="0" height="0"><defs><marker id="wave-arrow" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0.5L8 4L0 7.5Z" class="arrow"/></marker></defs></svg>',
    ),
  );
  stages.forEach((root) => waves[root.dataset.wave](new Stage(root)));
};

// The page may load waves.js after this file.
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", drawWaves);
else drawWaves();
