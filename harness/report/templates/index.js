"use strict";
// Filters the list, and sets two runs side by side: the first click chooses one, the second compares with it.
const compared = JSON.parse(document.getElementById("compared").textContent);
const rows = [...document.querySelectorAll(".runs tbody tr")];
const filters = document.querySelector(".filters");
const search = filters.querySelector("input");
const section = document.getElementById("comparison");
const element = (name, parent, text = "", css = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  if (css) made.className = css;
  parent.append(made);
  return made;
};

let verdict = "all";
const choices = ["all", ...new Set(rows.map((row) => row.dataset.verdict))].map((name) => {
  const button = element("button", filters.querySelector(".choices"), name);
  button.type = "button";
  button.addEventListener("click", () => {
    verdict = name;
    filter();
  });
  return button;
});

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of rows) {
    row.text ??= row.textContent.toLowerCase();
    row.hidden = (verdict !== "all" && row.dataset.verdict !== verdict) || !words.every((word) => row.text.includes(word));
    count += row.hidden ? 0 : 1;
  }
  for (const button of choices) button.setAttribute("aria-pressed", String(button.textContent === verdict));
  filters.querySelector(".shown").textContent = count === rows.length ? "" : `${count} of ${rows.length}`;
}
search.addEventListener("input", filter);
filters.hidden = rows.length === 0;
filter();

let chosen = [];
rows.forEach((row, number) => {
  if (!("run" in compared[number])) return;
  const button = element("button", row.querySelector(".c"), "Compare");
  button.type = "button";
  button.setAttribute("aria-label", `Compare ${compared[number].run}`);
  row.button = button;
  button.addEventListener("click", () => choose(number));
});

function choose(number) {
  if (chosen.includes(number)) chosen = chosen.filter((each) => each !== number);
  else chosen = [...(chosen.length < 2 ? chosen : []), number];
  rows.forEach((row, each) => {
    row.button?.setAttribute("aria-pressed", String(chosen.includes(each)));
  });
  section.hidden = chosen.length !== 2;
  if (!section.hidden) compare(...[...chosen].sort((a, b) => b - a).map((each) => compared[each]));
}

function compare(before, after) {
  const [head, body] = [section.querySelector("thead"), section.querySelector("tbody")];
  for (const each of [head, body]) each.replaceChildren();
  const titles = element("tr", head);
  for (const text of ["what", before.run, after.run]) element("th", titles, text).scope = "col";
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => name !== "run");
  const [other, same] = [names.filter((name) => before[name] !== after[name]), names.filter((name) => before[name] === after[name])];
  for (const name of [...other, ...same]) {
    const row = element("tr", body, "", before[name] === after[name] ? "" : "differs");
    element("th", row, name).scope = "row";
    element("td", row, before[name] ?? "–");
    element("td", row, after[name] ?? "–");
  }
  section.querySelector("pre").textContent = `tidegauge compare '${before.run}' '${after.run}'`;
  section.scrollIntoView();
  section.querySelector("h2").focus({ preventScroll: true });
}
