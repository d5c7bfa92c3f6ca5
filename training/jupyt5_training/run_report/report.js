"use strict";
// Tells the values of all charts at one step: that under the pointer, or chosen by arrow keys.

const data = JSON.parse(document.getElementById("data").textContent);
const figures = [...document.querySelectorAll("figure")].map((figure, idx) => ({
  svg: figure.querySelector("svg"),
  cursor: figure.querySelector(".cursor"),
  output: figure.querySelector("output"),
  lines: data.charts[idx],
}));
const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
let shown = null;

function nearest(places, step) {
  let low = 0;
  let high = places.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle] < step) low = middle;
    else high = middle;
  }
  return Math.abs(places[low] - step) <= Math.abs(places[high] - step) ? low : high;
}

function tell(line, step) {
  const value = line.y[nearest(line.x, step)];
  return value === null ? "" : `${line.name} ${numbers.format(value)}${line.unit}`;
}

function show(step) {
  shown = Math.min(Math.max(step, 0), data.last);
  const x = data.left + (shown / Math.max(data.last, 1)) * data.width;
  for (const { cursor, output, lines } of figures) {
    cursor.setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
    cursor.setAttribute("visibility", "visible");
    const values = lines.map((line) => tell(line, shown)).filter(Boolean);
    output.textContent = [`step ${Math.round(shown).toLocaleString("en")}`, ...values].join(" · ");
  }
}

function hide() {
  shown = null;
  for (const { cursor, output } of figures) {
    cursor.setAttribute("visibility", "hidden");
    output.textContent = "";
  }
}

for (const { svg } of figures) {
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    show(((x - data.left) / data.width) * data.last);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const stride = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    else if (stride) {
      const unit = Math.max(1, data.last / 100) * (event.shiftKey ? 10 : 1);
      show(shown === null ? (stride > 0 ? 0 : data.last) : shown + stride * unit);
      event.preventDefault();
    }
  });
}
document.documentElement.dataset.ready = "yes";
