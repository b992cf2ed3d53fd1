"use strict";
// Zooms the timelines: everything in them says when it began (data-a) and ended (data-b), and is put in its place anew.
for (const line of document.querySelectorAll("svg.timeline")) {
  const plot = line.querySelector(".plot");
  const width = plot.width.baseVal.value;
  const number = (element, name) => Number(element.dataset[name]);
  const whole = [number(line, "first"), number(line, "last")];
  const begin = [number(line, "low"), number(line, "high")];
  let [low, high] = begin;
  const place = (time) => ((time - low) / (high - low)) * width;
  const digits = (span) => (span > 2e10 ? 1 : span > 2e9 ? 2 : span > 2e8 ? 3 : span > 2e6 ? 4 : 6);

  const draw = () => {
    for (const hint of line.querySelectorAll(".away")) hint.remove();
    for (const group of plot.querySelectorAll("g[data-a]")) {
      const x = place(number(group, "a"));
      const wide = Math.max(2, place(number(group, "b")) - x);
      const box = group.querySelector("rect");
      // what lies far outside is not drawn there, for browsers count pixels in floats
      const left = Math.max(-20, Math.min(width + 20, x));
      const right = Math.max(-18, Math.min(width + 22, x + wide));
      box.setAttribute("x", left);
      box.setAttribute("width", Math.max(2, right - left));
      const text = group.querySelector("text");
      if (!text) continue;
      if (group.classList.contains("between")) {
        text.setAttribute("x", Math.max(2, left + 3));
        continue;
      }
      const outside = right - Math.max(0, left) < 6.2 * text.textContent.length + 6;
      text.classList.toggle("outside", outside);
      text.setAttribute("x", (outside ? right : Math.max(0, left)) + 4);
    }
    const points = [];
    for (const point of plot.querySelectorAll("circle[data-a]")) {
      const x = Math.max(-1e4, Math.min(1e4, place(number(point, "a"))));
      point.setAttribute("cx", x);
      points.push(`${x},${point.getAttribute("cy")}`);
    }
    plot.querySelector("polyline")?.setAttribute("points", points.join(" "));
    const ticks = [...line.querySelectorAll(".axis text")];
    ticks.forEach((tick, n) => {
      const time = low + ((high - low) * n) / (ticks.length - 1);
      tick.textContent = `${(time / 1e9).toFixed(digits(high - low))} s`;
    });
    line.dataset.zoom = ((begin[1] - begin[0]) / (high - low)).toFixed(3);
  };

  const show = (from, to) => {
    const span = Math.max(1e4, Math.min(to - from, whole[1] - whole[0]));
    const middle = (from + to) / 2;
    low = Math.max(whole[0], Math.min(middle - span / 2, whole[1] - span));
    high = low + span;
    draw();
  };
  const zoom = (factor, at = 0.5) => {
    const span = (high - low) / factor;
    const time = low + (high - low) * at;
    show(time - span * at, time + span * (1 - at));
  };
  const shift = (share) => show(low + (high - low) * share, high + (high - low) * share);

  const tools = document.createElement("div");
  tools.className = "tools";
  const button = (text, label, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    tools.append(made);
  };
  button("+", "zoom in", () => zoom(2));
  button("−", "zoom out", () => zoom(0.5));
  button("all", "show everything", () => show(...whole));
  button("reset", "as it was", () => show(...begin));
  const hint = document.createElement("span");
  hint.textContent = "drag to move, Ctrl and wheel to zoom";
  tools.append(hint);
  line.closest(".wide").before(tools);

  const share = (event) => {
    const box = line.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * line.viewBox.baseVal.width - plot.x.baseVal.value;
    return Math.max(0, Math.min(1, x / width));
  };
  line.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.4 : 1 / 1.4, share(event));
  }, { passive: false });
  let held = null;
  let moved = false;
  line.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) [held, moved] = [share(event), false];
  });
  line.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const now = share(event);
    if (Math.abs(now - held) < 0.004) return;
    [moved] = [true, shift(held - now)];
    held = now;
  });
  addEventListener("pointerup", () => { held = null; });
  line.addEventListener("dragstart", (event) => event.preventDefault());
  line.addEventListener("click", (event) => {
    if (moved) event.preventDefault(); // it was a drag, and no wish to follow a link
    moved = false;
  });
  line.addEventListener("dblclick", (event) => zoom(2, share(event)));
  line.addEventListener("keydown", (event) => {
    const keys = {
      "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), 0: () => show(...begin),
      ArrowLeft: () => shift(-0.2), ArrowRight: () => shift(0.2),
    };
    if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
