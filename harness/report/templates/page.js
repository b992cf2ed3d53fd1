"use strict";
// Tracks: all panels of one axis show the same time. A path is its own data, so values are read from what is drawn.
const SVG = "http://www.w3.org/2000/svg";
const make = (name, parent, attributes = {}) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
};
const element = (name, parent, text = "", css = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  if (css) made.className = css;
  parent.append(made);
  return made;
};
const between = (low, value, high) => Math.max(low, Math.min(high, value));
const nice = (step) => {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= step * (1 - 1e-9));
};
const shown = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)));

function points(path) {
  const found = [];
  let [at, value] = [0, 0];
  for (const [, command, a, b] of path.getAttribute("d").matchAll(/([MHVL])(-?[\d.]+)(?: (-?[\d.]+))?/g)) {
    if (command === "V") {
      value = Number(a);
      found[found.length - 1][1] = value;
      continue;
    }
    at = Number(a);
    if (command !== "H") value = Number(b);
    found.push([at, value, command === "M"]);
  }
  return found;
}

function valueAt(path, time) {
  path.points ??= points(path);
  let [low, high] = [0, path.points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (path.points[middle][0] <= time) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [path.points[low - 1], path.points[low]];
  return before && after && !after[2] ? before[1] : null;
}

const bubble = element("div", document.body, "", "bubble");
bubble.hidden = true;
bubble.setAttribute("role", "status");

class Axis {
  constructor(panel) {
    for (const name of ["origin", "unit", "low", "high", "first", "last"]) this[name] = Number(panel.dataset[name]);
    this.begin = [this.low, this.high];
    this.panels = [];
    this.waiting = false;
    this.cursor = null;
  }

  seconds(time) { return (this.origin + time * this.unit) / 1e9; }
  written(time) {
    const span = ((this.high - this.low) * this.unit) / 1e9;
    return `${this.seconds(time).toFixed(between(1, Math.ceil(3 - Math.log10(span)), 6))} s`;
  }
  show(from, to) {
    const span = between(this.shortest, to - from, this.last - this.first);
    this.low = between(this.first, (from + to - span) / 2, this.last - span);
    this.high = this.low + span;
    this.redraw();
  }
  get shortest() { return 10_000 / this.unit; }
  zoom(factor, share = 0.5) {
    const [span, time] = [(this.high - this.low) / factor, this.low + (this.high - this.low) * share];
    this.show(time - span * share, time + span * (1 - share));
  }
  shift(share) { this.show(this.low + (this.high - this.low) * share, this.high + (this.high - this.low) * share); }
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }
  ticks() {
    const [from, to] = [this.seconds(this.low), this.seconds(this.high)];
    const step = nice((to - from) / 7);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    const found = [];
    for (let n = Math.ceil(from / step); n * step <= to; n += 1) {
      found.push([(n * step * 1e9 - this.origin) / this.unit, `${(n * step).toFixed(digits)} s`]);
    }
    return found;
  }
  percent(time) { return `${(100 * (time - this.low)) / (this.high - this.low)}%`; }
  draw() {
    const ticks = this.ticks();
    for (const panel of this.panels) panel.draw(ticks);
    this.point(this.cursor);
  }
  point(time) {
    this.cursor = time;
    for (const panel of this.panels) panel.point(time);
  }
  get isWhole() { return this.high - this.low >= (this.last - this.first) * 0.999; }
}

class Panel {
  constructor(figure, axis) {
    this.figure = figure;
    this.axis = axis;
    this.tracks = figure.querySelector(".tracks");
    this.plots = [...figure.querySelectorAll(".plot:not(.ticks)")];
    this.cursors = this.plots.map((plot) => make("line", plot, { class: "cursor", y1: 0, y2: "100%", x1: -9, x2: -9 }));
    this.held = null;
    this.listen();
    if (figure.hasAttribute("data-tools")) this.addTools();
  }

  draw(ticks) {
    const { axis } = this;
    for (const plot of this.plots) {
      const inside = plot.querySelector(".scaled");
      const height = Number(plot.getAttribute("height"));
      inside.setAttribute("viewBox", `${axis.low} 0 ${axis.high - axis.low} ${height}`);
      inside.querySelector(".grid").setAttribute("d", ticks.map(([at]) => `M${at} 0V${height}`).join(""));
      for (const text of plot.querySelectorAll(".written")) {
        const [begin, until, over] = [text.dataset.a, text.dataset.b, text.dataset.over].map(Number);
        // a bar that is out of view takes its text along
        const [from, to] = [over > axis.low ? Math.max(axis.low, begin) : begin, Math.min(axis.high, until)];
        text.setAttribute("x", axis.percent(from));
        text.setAttribute("width", `${Math.max(0, (100 * (to - from)) / (axis.high - axis.low))}%`);
      }
    }
    const row = this.figure.querySelector(".ticks");
    row.replaceChildren();
    for (const [at, text] of ticks) make("text", row, { x: axis.percent(at), y: 14 }).textContent = text;
    this.figure.dataset.zoom = ((axis.begin[1] - axis.begin[0]) / (axis.high - axis.low)).toFixed(3);
    if (this.slider) {
      const room = axis.last - axis.first - (axis.high - axis.low);
      this.slider.value = room > 0 ? Math.round((1000 * (axis.low - axis.first)) / room) : 0;
      this.slider.disabled = axis.isWhole;
    }
  }
  point(time) {
    const x = time === null ? -9 : this.axis.percent(time);
    for (const line of this.cursors) {
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }
  share(event) {
    const box = this.plots[0].getBoundingClientRect();
    return between(0, (event.clientX - box.left) / box.width, 1);
  }
  at(share) { return this.axis.low + (this.axis.high - this.axis.low) * share; }
  plotAt(event) { return this.plots.find((plot) => plot.contains(event.target)) ?? null; }

  values(plot, time) {
    const [unit, lowest] = (plot.dataset.says ?? "").split(" ");
    return [...plot.querySelectorAll(".curve")].flatMap((curve) => {
      const value = valueAt(curve, time);
      if (value === null) return [];
      const real = plot.dataset.log ? 10 ** (value + Number(lowest)) : value;
      return [[curve.getAttribute("class"), `${curve.dataset.name}: ${shown(real)} ${unit}`.trim()]];
    });
  }
  spans(plot, time, y = null) {
    const near = ((this.axis.high - this.axis.low) / plot.getBoundingClientRect().width) * 4;
    return [...plot.querySelectorAll(".span")].filter((span) => {
      const [x, width] = [span.x.baseVal.value, span.width.baseVal.value];
      const [top, height] = [span.y.baseVal.value, span.height.baseVal.value];
      return x - near <= time && time <= x + width + near && (y === null || (top - 1 <= y && y <= top + height + 1));
    });
  }
  describe(plot, time, spans) {
    bubble.replaceChildren();
    element("strong", bubble, this.axis.written(time));
    for (const [css, text] of this.values(plot, time)) {
      const line = element("p", bubble);
      const sample = make("svg", line, { class: "sample", viewBox: "0 0 22 10" });
      make("line", sample, { class: css, x1: 0, x2: 22, y1: 5, y2: 5 });
      line.append(text);
    }
    for (const span of spans.slice(0, 4)) element("p", bubble, span.querySelector("title").textContent);
    if (spans.length > 4) element("p", bubble, `and ${spans.length - 4} more`);
    bubble.hidden = bubble.childElementCount < 2;
  }
  place(x, y) {
    const box = bubble.getBoundingClientRect();
    bubble.style.left = `${between(4, x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14, innerWidth)}px`;
    bubble.style.top = `${between(4, y + 14, Math.max(4, innerHeight - box.height - 4))}px`;
  }
  hover(event) {
    const plot = this.plotAt(event);
    if (!plot) return this.leave();
    const time = this.at(this.share(event));
    this.axis.point(time);
    this.describe(plot, time, this.spans(plot, time, event.clientY - plot.getBoundingClientRect().top));
    this.place(event.clientX, event.clientY);
  }
  leave() {
    this.axis.point(null);
    bubble.hidden = true;
  }
  select(event) {
    const [from, to] = [this.held, this.at(this.share(event))].sort((a, b) => a - b);
    const inside = this.plots[0].querySelector(".scaled");
    this.selection ??= make("rect", inside, { class: "selection", y: 0, height: "100%" });
    this.selection.setAttribute("x", from);
    this.selection.setAttribute("width", to - from);
    return [from, to];
  }
  listen() {
    const { tracks, axis } = this;
    tracks.tabIndex = 0;
    tracks.setAttribute("role", "group");
    tracks.setAttribute("aria-label", `${this.figure.querySelector("figcaption").textContent}: arrow keys read values, + and - zoom, 0 shows all`);
    tracks.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0 && this.plotAt(event)) {
        this.held = this.at(this.share(event));
        this.from = event.clientX;
      }
    });
    tracks.addEventListener("pointermove", (event) => {
      this.hover(event);
      if (this.held !== null && Math.abs(event.clientX - this.from) > 5) this.select(event);
    });
    tracks.addEventListener("pointerleave", () => this.leave());
    addEventListener("pointerup", (event) => {
      if (this.held === null) return;
      if (this.selection) {
        axis.show(...this.select(event));
        this.selection.remove();
        this.selection = null;
        this.dragged = true;
      }
      this.held = null;
    });
    tracks.addEventListener("click", (event) => {
      const plot = this.plotAt(event);
      if (!plot || this.dragged) { this.dragged = false; return; }
      const y = event.clientY - plot.getBoundingClientRect().top;
      const found = this.spans(plot, this.at(this.share(event)), y);
      const span = found.find((each) => each.dataset.link || each.classList.contains("op"));
      if (span) this.follow(span);
    });
    tracks.addEventListener("dblclick", () => axis.show(...axis.begin));
    tracks.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      axis.zoom(event.deltaY < 0 ? 1.4 : 1 / 1.4, this.share(event));
    }, { passive: false });
    tracks.addEventListener("keydown", (event) => this.press(event));
    tracks.addEventListener("blur", () => this.leave());
  }
  follow(span) {
    if (!span.classList.contains("op")) {
      location.hash = span.dataset.link;
      return;
    }
    this.figure.querySelector(".picked")?.classList.remove("picked");
    span.classList.add("picked");
    if (!this.picked) {
      this.picked = element("p", this.figure, "", "picked-text");
      this.picked.setAttribute("role", "status");
    }
    this.picked.textContent = `${span.querySelector("title").textContent}. `;
    if (span.dataset.link) element("a", this.picked, "In the table").href = span.dataset.link;
  }
  press(event) {
    const { axis } = this;
    const share = axis.cursor === null ? 0.5 : (axis.cursor - axis.low) / (axis.high - axis.low);
    const step = (by) => () => {
      if (event.shiftKey) { axis.shift(by * 10); return; }
      const time = this.at(between(0, share + by, 1));
      axis.point(time);
      this.describe(this.plots[0], time, this.plots.flatMap((plot) => this.spans(plot, time)));
      const box = this.plots[0].getBoundingClientRect();
      this.place(box.left + box.width * between(0, share + by, 1), box.top);
    };
    const keys = {
      "+": () => axis.zoom(2, share), "=": () => axis.zoom(2, share), "-": () => axis.zoom(0.5, share),
      0: () => axis.show(...axis.begin), ArrowLeft: step(-0.02), ArrowRight: step(0.02), Escape: () => this.leave(),
    };
    if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
  jump(direction) {
    const { axis } = this;
    const starts = [...this.figure.querySelectorAll("rect.op")].map((each) => each.x.baseVal.value);
    const beyond = starts.filter((each) => (direction > 0 ? each > axis.high : each < axis.low));
    if (beyond.length === 0) return;
    const to = direction > 0 ? Math.min(...beyond) : Math.max(...beyond);
    const span = axis.high - axis.low;
    axis.show(to - span / 2, to + span / 2);
  }
  addTools() {
    const { axis } = this;
    const tools = document.createElement("div");
    tools.className = "tools";
    const button = (text, label, action) => {
      const made = element("button", tools, text);
      made.type = "button";
      made.setAttribute("aria-label", label);
      made.addEventListener("click", action);
    };
    button("+", "zoom in", () => axis.zoom(2));
    button("−", "zoom out", () => axis.zoom(0.5));
    if (axis.panels.length === 0 && this.figure.querySelector(".op")) {
      button("‹", "earlier operations", () => this.jump(-1));
      button("›", "later operations", () => this.jump(1));
    }
    button("reset", "reset the view", () => axis.show(...axis.begin));
    this.slider = element("input", tools);
    Object.assign(this.slider, { type: "range", min: 0, max: 1000, value: 0 });
    this.slider.setAttribute("aria-label", "position in the run");
    this.slider.addEventListener("input", () => {
      const span = axis.high - axis.low;
      const low = axis.first + ((axis.last - axis.first - span) * this.slider.value) / 1000;
      axis.show(low, low + span);
    });
    element("span", tools, "drag to zoom, double-click to reset", "hint");
    this.tracks.before(tools);
  }
}

const axes = new Map();
for (const figure of document.querySelectorAll(".panel")) {
  if (!axes.has(figure.dataset.axis)) axes.set(figure.dataset.axis, new Axis(figure));
  const axis = axes.get(figure.dataset.axis);
  axis.panels.push(new Panel(figure, axis));
}
for (const axis of axes.values()) axis.draw();

for (const command of document.querySelectorAll(".command")) {
  const button = element("button", command, "Copy", "copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    const text = command.querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

const unfold = () => {
  let each = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const target = each;
  for (; each; each = each.parentElement) if (each.localName === "details") each.open = true;
  target?.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
