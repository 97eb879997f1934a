"use strict";

// The text of an element that holds gzip in base64.
async function unpacked(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(text, letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function made(name, parent, properties = {}) {
  return parent.appendChild(Object.assign(document.createElement(name), properties));
}

// A group of buttons for each choice.
function offer(data, form) {
  for (const [choice, { heading, values }] of Object.entries(data.choices)) {
    const group = made("fieldset", form, { name: choice });
    made("legend", group, { textContent: heading });
    for (const [value, words] of Object.entries(values)) {
      const label = made("label", group);
      made("input", label, { type: "radio", name: choice, value });
      label.append(" " + words);
    }
  }
}

// Whether a line, or a point without a time, is of these choices; some do not concern it.
function fits(item, chosen) {
  return Object.entries(chosen).every(([choice, value]) => item[choice] === value || !(choice in item));
}

// What is chosen, of what there is: one choice decides what the next ones can be.
function settled(data, form) {
  const chosen = {};
  for (const [choice, { values }] of Object.entries(data.choices)) {
    const here = [...data.lines, ...data.absent].filter(item => fits(item, chosen));
    const open = Object.keys(values).filter(value => here.some(item => item[choice] === value));
    const before = new FormData(form).get(choice);
    chosen[choice] = open.includes(before) ? before : open[0];
    const group = form.elements[choice];
    for (const button of form.querySelectorAll(`input[name=${choice}]`)) {
      button.checked = button.value === chosen[choice];
      button.parentElement.hidden = !open.includes(button.value);
    }
    form.querySelector(`fieldset[name=${choice}]`).hidden = open.length < 2;
  }
  return chosen;
}

// On a narrow screen the kernels' names stand below the plot, which grows by their rows, and the choices
// are folded into one line that says what is chosen, so that the plot is on the first screen.
const narrow = matchMedia("(max-width: 45rem)");
function fold() {
  document.getElementById("chosen").open = !narrow.matches;
}
function summarise(form) {
  const words = [...form.querySelectorAll("fieldset:not([hidden]) input:checked")].map(
    button => button.parentElement.textContent.trim());
  document.querySelector("#chosen summary").textContent = words.join(" · ");
}
const below = { orientation: "h", y: -0.2, yanchor: "top", font: { size: 9 },
                entrywidthmode: "fraction", entrywidth: 0.5 };
function fitted(layout, names) {
  const height = narrow.matches ? `${24 + 1.4 * Math.ceil(names / 2)}rem` : "";
  document.getElementById("plot").style.height = height;
  return narrow.matches ? { ...layout, legend: below, margin: { t: 30, r: 8, l: 56 } } : layout;
}

function draw(data, form) {
  const chosen = settled(data, form);
  summarise(form);
  const lines = data.lines.filter(line => fits(line, chosen));
  const layout = fitted(structuredClone({ ...data.layout, ...(lines[0]?.axes ?? data.nothing) }), lines.length);
  document.getElementById("ways").textContent = [...new Set(lines.map(line => line.way))].join("");
  Plotly.react("plot", structuredClone(lines.map(line => line.trace)), layout, data.config);

  const absent = data.absent.filter(item => fits(item, chosen));
  const list = document.getElementById("absent");
  list.hidden = !absent.length;
  list.open = !lines.length;
  list.querySelector("summary").textContent = "What was not measured, and why";
  list.querySelector("ul").replaceChildren();
  absent.forEach(item => made("li", list.querySelector("ul"), { textContent: item.words }));
}

async function start() {
  const form = document.getElementById("choices");
  made("script", document.head, { textContent: await unpacked("library") });
  const data = JSON.parse(await unpacked("data"));
  offer(data, form);
  form.addEventListener("change", () => draw(data, form));
  narrow.addEventListener("change", () => {
    fold();
    draw(data, form);
  });
  fold();
  draw(data, form);
}

start().catch(error => {
  document.getElementById("plot").textContent =
    `The page cannot be drawn (${error.message}); it needs a browser of 2023 or newer.`;
  throw error;
});
