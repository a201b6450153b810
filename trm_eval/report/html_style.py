"""How the page of a report looks, and what its script does: sort tables, hold what moves."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --paper: #ffffff; --line: #d1d5db; --soft: #f3f4f6; --link: #0059a3;
  --mute: #9ca3af; --edge: #6b728088; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --paper: #111827; --line: #374151; --soft: #1f2937; --link: #7cc4ff;
    --mute: #6b7280; --edge: #9ca3af88; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; line-height: 1.3; }
nav { columns: 14rem; font-size: .9rem; }
nav a { display: block; break-inside: avoid; }
a { color: var(--link); }
.wide, pre { overflow-x: auto; background-repeat: no-repeat;
  background-size: 3rem 100%, 3rem 100%, .9rem 100%, .9rem 100%;
  background-position: left, right, left, right; background-attachment: local, local, scroll, scroll;
  background-image: linear-gradient(to right, var(--back) 40%, transparent),
  linear-gradient(to left, var(--back) 40%, transparent),
  linear-gradient(to right, var(--edge), transparent), linear-gradient(to left, var(--edge), transparent); }
.wide { --back: var(--paper); }
.wide::-webkit-scrollbar, pre::-webkit-scrollbar { height: .6rem; }
.wide::-webkit-scrollbar-thumb, pre::-webkit-scrollbar-thumb { background: var(--mute); border-radius: .3rem; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; overflow-wrap: normal; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.short { white-space: nowrap; }
td.long { min-width: 12rem; }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: .9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.5rem;
  margin: 1rem 0; }
.figures > figure { min-width: 0; max-width: 36rem; }
.figures svg { width: 100%; height: auto; display: block; }
.drawings { display: flex; flex-wrap: wrap; gap: 1rem; margin: .5rem 0; }
.drawings figcaption { font-weight: 400; font-size: .8rem; }
.drawings svg { max-width: 100%; height: auto; display: block; background: #ffffff; border-radius: .2rem; }
.files { font-size: .8rem; margin: .2rem 0; }
details { font-size: .85rem; margin: .3rem 0; }
summary { cursor: pointer; }
pre { --back: var(--soft); background-color: var(--soft); padding: .8rem; font-size: .8rem; overflow-wrap: normal; }
code { font-size: .9em; }
"""

SCRIPT = """
for (const head of document.querySelectorAll("th button")) head.onclick = () => {
  const cell = head.parentElement, body = cell.closest("table").tBodies[0], column = cell.cellIndex;
  const up = cell.getAttribute("aria-sort") !== "ascending";
  for (const other of cell.parentElement.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[column].textContent, number = text => parseFloat(text.replace(/,/g, ""));
  [...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], [m, n] = [number(x), number(y)];
    const order = isNaN(m) || isNaN(n) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
    return (up ? 1 : -1) * order;
  }).forEach(row => body.append(row));
};
for (const moving of document.querySelectorAll(".moving")) {
  const drawing = moving.querySelector("svg"), button = moving.querySelector("button");
  const hold = still => {
    still ? drawing.pauseAnimations() : drawing.unpauseAnimations();
    button.textContent = still ? "Play" : "Pause";
  };
  button.hidden = false;
  button.onclick = () => hold(!drawing.animationsPaused());
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    drawing.setCurrentTime(drawing.querySelector("animate").getSimpleDuration() - 0.01);
    hold(true);
  }
}
"""
