"use strict";

// A dial for n: once it is turned, each chart shows the size nearest to it of those that were measured.
const charts = JSON.parse(document.getElementById("bars").textContent);
const dial = document.querySelector(".dial");
const sizes = [...new Set(Object.values(charts).flatMap(chart => Object.keys(chart.sizes).map(Number)))]
  .sort((one, other) => one - other);

function nearest(chart, n) {
  const far = size => Math.abs(Math.log(size / n));
  return Object.keys(chart.sizes).map(Number).reduce((best, size) => far(size) < far(best) ? size : best);
}

function show(element, cell, most) {
  const bar = element.querySelector(".bar"), library = bar.querySelector(".library");
  const place = rate => `${100 * (rate ?? 0) / most}%`;
  bar.setAttribute("aria-label", cell?.said ?? "not measured at this size");
  bar.querySelector(".reached").setAttribute("width", place(cell?.reached));
  library.setAttribute("visibility", cell?.library ? "visible" : "hidden");
  for (const end of ["x1", "x2"]) library.setAttribute(end, place(cell?.library));
  element.querySelector(".rate").textContent = cell?.rate ?? "–";
  for (const words of element.querySelectorAll(".gain")) words.textContent = cell?.gain ?? "";
}

function turn(n) {
  dial.querySelector("output").textContent = `n = ${n}`;
  dial.querySelector("input").setAttribute("aria-valuetext", `n = ${n}`);
  for (const [name, chart] of Object.entries(charts).filter(([, chart]) => chart.size)) {
    const size = nearest(chart, n);
    for (const words of document.querySelectorAll(`[data-size="${name}"]`)) words.textContent = size;
    for (const element of document.querySelectorAll(`[data-chart="${name}"] [data-step]`))
      show(element, chart.sizes[size][element.dataset.step], chart.most);
  }
}

if (sizes.length > 1) {
  const range = dial.querySelector("input");
  Object.assign(range, { max: sizes.length - 1, value: sizes.indexOf(Object.values(charts).find(chart => chart.size).size) });
  range.addEventListener("input", () => turn(sizes[range.value]));
  dial.hidden = false;
}
