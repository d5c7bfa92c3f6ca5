"use strict";
// The only script of the page. Every text of a notebook reaches the page through textContent, or
// is painted on the canvas.
(() => {
  const FULL_SCALE = 65535;
  const NUM_COLOURS = 48;
  const POINT_ALPHA = 220; // of 256
  const DIMMED = 0.1;
  const GRID = 96;
  const REACH_PX = 9;
  const PAN_PX = 60;
  const ZOOM_STEP = 1.5;
  const MAX_ZOOM = 200;
  const MARGIN_PX = 18;
  const MAX_FOUND = 40;
  const NAMED_TERMS = 2;
  const LISTED_TERMS = 4;
  const $ = (id) => document.getElementById(id);
  const canvas = $("map");
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  const number = new Intl.NumberFormat("en");
  const share = (fraction) => `${Math.round(100 * fraction)} %`;

  let data = null;
  let cells = null; // The points of each square of a grid, for what is under the pointer.
  let size = { width: 1, height: 1, dpr: 1 };
  let view = { x: FULL_SCALE / 2, y: FULL_SCALE / 2, zoom: 1 };
  let colours = [];
  let ink = "";
  let ground = [0, 0, 0];
  let image = null; // The canvas's pixels, and the same as one number each.
  let pixels = null;
  let disc = { reach: 0 };
  let shown = null; // Which points the search and the chosen cluster leave bright; null: all.
  let chosen = null;
  let hovered = null;
  let picked = null;
  let waiting = false;

  function el(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  async function unpack() {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("This browser is too old for the map: it has no DecompressionStream.");
    }
    const text = atob($("data").textContent);
    const bytes = new Uint8Array(text.length);
    for (let idx = 0; idx < text.length; idx++) bytes[idx] = text.charCodeAt(idx);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  const placeOf = (idx) => `${data.repos[data.repo[idx]]}/${data.path[idx]}`;
  const nameOf = (cluster, terms) =>
    data.clusters[cluster].terms.slice(0, terms).join(", ") || "no terms of its own";

  // ---- Colours -------------------------------------------------------------------------------

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => parseHex(style.getPropertyValue(`--${name}`));
    const stops = [0, 1, 2, 3, 4].map((idx) => read(`c${idx}`));
    colours = Array.from({ length: NUM_COLOURS }, (_, idx) => {
      const at = (idx / (NUM_COLOURS - 1)) * (stops.length - 1);
      const from = Math.min(Math.floor(at), stops.length - 2);
      return stops[from].map((value, channel) =>
        Math.round(value + (at - from) * (stops[from + 1][channel] - value)),
      );
    });
    ink = css(read("ink"));
    ground = read("sunken");
  }

  function parseHex(text) {
    const digits = text.trim().slice(1);
    const value = parseInt(digits.length === 3 ? digits.replace(/./g, "$&$&") : digits, 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
  }

  const css = (colour) => `rgb(${colour.join(" ")})`;
  const colourIdx = (fraction) => Math.round(fraction * (NUM_COLOURS - 1));

  // ---- Drawing -------------------------------------------------------------------------------

  const baseScale = () => (Math.min(size.width, size.height) - 2 * MARGIN_PX) / FULL_SCALE;
  const scale = () => baseScale() * view.zoom;
  const screenX = (x) => (x - view.x) * scale() + size.width / 2;
  const screenY = (y) => (y - view.y) * scale() + size.height / 2;
  const radius = () => Math.min(7, 1.9 * Math.pow(view.zoom, 0.4));

  // A disc with soft edges: offsets from its centre, in device pixels, and opacity from 0 to 256.
  function makeDisc() {
    const reach = radius() * size.dpr;
    if (disc.reach === reach && disc.width === canvas.width) return;
    const half = Math.ceil(reach);
    const [dx, dy, alpha] = [[], [], []];
    for (let y = -half; y <= half; y++) {
      for (let x = -half; x <= half; x++) {
        const cover = clamp(reach + 0.5 - Math.hypot(x, y), 0, 1);
        if (cover > 0) [dx[dx.length], dy[dy.length], alpha[alpha.length]] = [x, y, cover * POINT_ALPHA];
      }
    }
    const offsets = Int32Array.from(dx, (x, idx) => dy[idx] * canvas.width + x);
    disc = { reach, width: canvas.width, half, dx, dy, offsets, alpha: Int32Array.from(alpha) };
  }

  function redraw() {
    if (waiting || !data) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const start = performance.now();
      draw();
      canvas.dataset.drawMs = (performance.now() - start).toFixed(1);
    });
  }

  // Points are mixed into the pixels by hand: thousands of calls of drawImage take far longer
  // where the canvas has no graphics processor.
  function draw() {
    makeDisc();
    pixels.fill((255 << 24) | (ground[2] << 16) | (ground[1] << 8) | ground[0]);
    if (shown) {
      drawPoints((idx) => !shown[idx], DIMMED);
      drawPoints((idx) => shown[idx], 1);
    } else {
      drawPoints(() => true, 1);
    }
    context.putImageData(image, 0, 0);
    context.setTransform(size.dpr, 0, 0, size.dpr, 0, 0);
    if ($("names").checked) drawNames();
    for (const idx of [hovered, picked]) if (idx !== null) drawRing(idx);
  }

  function drawPoints(wanted, strength) {
    const [factor, left, top] = [scale() * size.dpr, screenX(0) * size.dpr, screenY(0) * size.dpr];
    const { width, height } = canvas;
    const { x, y, level } = data;
    const { half } = disc;
    for (let idx = 0; idx < x.length; idx++) {
      const atX = Math.round(x[idx] * factor + left);
      const atY = Math.round(y[idx] * factor + top);
      const outside = atX < -half || atY < -half || atX >= width + half || atY >= height + half;
      if (!outside && wanted(idx)) mix(atX, atY, colours[level[idx]], strength);
    }
  }

  function mix(atX, atY, [red, green, blue], strength) {
    const { half, dx, dy, offsets, alpha } = disc;
    const { width, height } = canvas;
    const start = atY * width + atX;
    const whole = atX >= half && atY >= half && atX < width - half && atY < height - half;
    for (let idx = 0; idx < offsets.length; idx++) {
      if (!whole) {
        const [x, y] = [atX + dx[idx], atY + dy[idx]];
        if (x < 0 || y < 0 || x >= width || y >= height) continue;
      }
      const under = pixels[start + offsets[idx]];
      const part = alpha[idx] * strength;
      const [r, g, b] = [under & 255, (under >> 8) & 255, (under >> 16) & 255];
      pixels[start + offsets[idx]] =
        (255 << 24) |
        ((b + (((blue - b) * part) >> 8)) << 16) |
        ((g + (((green - g) * part) >> 8)) << 8) |
        (r + (((red - r) * part) >> 8));
    }
  }

  function drawNames() {
    context.font = "600 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeStyle = css(ground);
    context.fillStyle = ink;
    const taken = [];
    data.clusters.forEach((cluster, idx) => {
      if (chosen !== null && chosen !== idx) return;
      const text = cluster.terms.slice(0, NAMED_TERMS).join(" · ");
      const [x, y] = [screenX(cluster.x), screenY(cluster.y)];
      const half = context.measureText(text).width / 2 + 4;
      const box = [x - half, y - 9, x + half, y + 9];
      const free = taken.every(
        (other) => box[0] > other[2] || box[2] < other[0] || box[1] > other[3] || box[3] < other[1],
      );
      if (!free || box[0] < 0 || box[2] > size.width) return;
      taken.push(box);
      context.strokeText(text, x, y);
      context.fillText(text, x, y);
    });
  }

  function drawRing(idx) {
    context.beginPath();
    context.arc(screenX(data.x[idx]), screenY(data.y[idx]), radius() + 3, 0, 2 * Math.PI);
    context.lineWidth = 2;
    context.strokeStyle = ink;
    context.stroke();
  }

  function resize() {
    const box = canvas.getBoundingClientRect();
    const dpr = window.devicePixelRatio || 1;
    size = { width: box.width || 1, height: box.height || 1, dpr };
    canvas.width = Math.round(size.width * dpr);
    canvas.height = Math.round(size.height * dpr);
    image = context.createImageData(canvas.width, canvas.height);
    pixels = new Uint32Array(image.data.buffer);
    redraw();
  }

  // ---- Moving --------------------------------------------------------------------------------

  function pan(dx, dy) {
    view.x = clamp(view.x - dx / scale(), 0, FULL_SCALE);
    view.y = clamp(view.y - dy / scale(), 0, FULL_SCALE);
    redraw();
  }

  // Keeps what is at (x, y), in pixels of the canvas, where it is.
  function zoomAt(factor, x = size.width / 2, y = size.height / 2) {
    const before = scale();
    view.zoom = clamp(view.zoom * factor, 1, MAX_ZOOM);
    const moved = 1 / before - 1 / scale();
    view.x = clamp(view.x + (x - size.width / 2) * moved, 0, FULL_SCALE);
    view.y = clamp(view.y + (y - size.height / 2) * moved, 0, FULL_SCALE);
    redraw();
  }

  function fit() {
    view = { x: FULL_SCALE / 2, y: FULL_SCALE / 2, zoom: 1 };
    redraw();
  }

  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  // ---- Finding points ------------------------------------------------------------------------

  const cellOf = (value) => Math.min(Math.floor((value / (FULL_SCALE + 1)) * GRID), GRID - 1);

  function makeGrid() {
    cells = Array.from({ length: GRID * GRID }, () => []);
    data.x.forEach((x, idx) => cells[cellOf(data.y[idx]) * GRID + cellOf(x)].push(idx));
  }

  function nearest(x, y, reach) {
    const [dataX, dataY] = [
      (x - size.width / 2) / scale() + view.x,
      (y - size.height / 2) / scale() + view.y,
    ];
    const far = reach / scale();
    const range = (value) => [cellOf(Math.max(value - far, 0)), cellOf(Math.max(value + far, 0))];
    const [[fromX, toX], [fromY, toY]] = [range(dataX), range(dataY)];
    let [best, least] = [null, far * far];
    for (let row = fromY; row <= toY; row++) {
      for (let column = fromX; column <= toX; column++) {
        for (const idx of cells[row * GRID + column]) {
          if (shown && !shown[idx]) continue;
          const distance = (data.x[idx] - dataX) ** 2 + (data.y[idx] - dataY) ** 2;
          if (distance <= least) [best, least] = [idx, distance];
        }
      }
    }
    return best;
  }

  // The nearest notebook in a direction; what lies aside counts as farther away.
  function next(dx, dy) {
    let [best, least] = [null, Infinity];
    for (let idx = 0; idx < data.x.length; idx++) {
      if (idx === picked || (shown && !shown[idx])) continue;
      const [x, y] = [data.x[idx] - data.x[picked], data.y[idx] - data.y[picked]];
      const [along, aside] = [x * dx + y * dy, Math.abs(x * dy) + Math.abs(y * dx)];
      if (along <= 0 || aside > 2 * along) continue;
      const distance = along + 2 * aside;
      if (distance < least) [best, least] = [idx, distance];
    }
    return best;
  }

  function describe(idx) {
    return [
      el("strong", { textContent: data.title[idx] }),
      el("p", { className: "muted", textContent: placeOf(idx) }),
      el("p", {
        className: "muted",
        textContent: `${share(data.markdown[idx])} Markdown · cluster: ${nameOf(data.cluster[idx], LISTED_TERMS)}`,
      }),
    ];
  }

  function hover(idx, x, y) {
    if (idx !== hovered) {
      hovered = idx;
      canvas.classList.toggle("over", idx !== null);
      $("tip").hidden = idx === null;
      if (idx !== null) $("tip").replaceChildren(...describe(idx));
      redraw();
    }
    if (idx === null) return;
    const box = $("tip").getBoundingClientRect();
    const left = clamp(x + 14, 0, Math.max(0, size.width - box.width - 4));
    const top = y + 16 + box.height > size.height ? y - box.height - 10 : y + 16;
    $("tip").style.transform = `translate(${left}px, ${Math.max(0, top)}px)`;
  }

  function pick(idx, { reveal = false } = {}) {
    picked = idx;
    $("picked").replaceChildren(...(idx === null ? [] : describe(idx)));
    if (reveal && idx !== null) {
      const [x, y] = [screenX(data.x[idx]), screenY(data.y[idx])];
      const inside = x > 40 && y > 40 && x < size.width - 40 && y < size.height - 40;
      if (!inside) [view.x, view.y] = [data.x[idx], data.y[idx]];
    }
    redraw();
  }

  // ---- Lists ---------------------------------------------------------------------------------

  function makeClusters() {
    data.clusters.forEach((cluster, idx) => {
      const members = data.x.map((_, point) => point).filter((point) => data.cluster[point] === idx);
      cluster.num = members.length;
      cluster.x = median(members.map((point) => data.x[point]));
      cluster.y = median(members.map((point) => data.y[point]));
      const swatch = el("span", { className: "swatch" });
      const button = el(
        "button",
        { type: "button" },
        swatch,
        el("span", { className: "grow" }, el("b", { textContent: nameOf(idx, LISTED_TERMS) })),
        el("span", { className: "n", textContent: `${number.format(cluster.num)} · ${share(cluster.markdown)}` }),
      );
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => choose(chosen === idx ? null : idx));
      const examples = cluster.examples.map((point) => el("li", {}, pointButton(point)));
      const more = el(
        "div",
        { className: "more", hidden: true },
        el("p", { textContent: cluster.terms.join(", ") }),
        el("ul", {}, ...examples),
      );
      $("clusters").append(el("li", {}, button, more));
    });
  }

  function pointButton(idx) {
    const button = el("button", { type: "button", className: "one", title: placeOf(idx) });
    button.textContent = data.title[idx];
    button.addEventListener("click", () => pick(idx, { reveal: true }));
    return button;
  }

  function median(values) {
    values.sort((one, other) => one - other);
    return values[values.length >> 1];
  }

  function choose(idx) {
    chosen = idx;
    [...$("clusters").children].forEach((item, at) => {
      item.firstChild.setAttribute("aria-expanded", String(at === idx));
      item.lastChild.hidden = at !== idx;
    });
    update();
  }

  function paintSwatches() {
    [...$("clusters").children].forEach((item, idx) => {
      const swatch = item.querySelector(".swatch");
      swatch.style.background = css(colours[colourIdx(data.clusters[idx].markdown)]);
    });
  }

  function update() {
    const wanted = $("find").value.trim().toLowerCase();
    const matches = (idx) =>
      (chosen === null || data.cluster[idx] === chosen) && (!wanted || data.text[idx].includes(wanted));
    const all = chosen === null && !wanted;
    shown = all ? null : data.x.map((_, idx) => matches(idx));
    const hits = all ? [] : shown.flatMap((is, idx) => (is ? [idx] : []));
    const total = number.format(data.x.length);
    $("count").textContent = all
      ? `${total} notebooks`
      : `${number.format(hits.length)} of ${total} notebooks`;
    $("found").hidden = !wanted;
    const found = wanted ? hits.slice(0, MAX_FOUND) : [];
    $("found-list").replaceChildren(...found.map((idx) => el("li", {}, pointButton(idx))));
    if (wanted && hits.length !== found.length) {
      const rest = number.format(hits.length - found.length);
      $("found-list").append(el("li", { className: "muted", textContent: `and ${rest} more` }));
    }
    if (picked !== null && shown && !shown[picked]) pick(null);
    redraw();
  }

  // ---- Hands and keys ------------------------------------------------------------------------

  const pointers = new Map();
  let moved = 0;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    moved = 0;
    hover(null);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!data) return;
    const to = at(event);
    const from = pointers.get(event.pointerId);
    if (!from) return hover(nearest(to.x, to.y, REACH_PX), to.x, to.y);
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0];
      const spread = (one) => Math.hypot(one.x - other.x, one.y - other.y) || 1;
      zoomAt(spread(to) / spread(from), (to.x + other.x) / 2, (to.y + other.y) / 2);
    }
    const part = others.length ? 0.5 : 1; // Two fingers move their middle.
    pan(part * (to.x - from.x), part * (to.y - from.y));
    moved += Math.hypot(to.x - from.x, to.y - from.y);
    canvas.classList.toggle("dragging", moved > 3);
    pointers.set(event.pointerId, to);
  });
  function release(event) {
    const place = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    canvas.classList.remove("dragging");
    if (event.type === "pointerup" && place && data && moved <= 3) {
      pick(nearest(place.x, place.y, REACH_PX));
    }
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const place = at(event);
      const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
      zoomAt(Math.exp(-clamp(pixels, -300, 300) / 400), place.x, place.y);
    },
    { passive: false },
  );

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  canvas.addEventListener("keydown", (event) => {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) pan(-PAN_PX * arrow[0], -PAN_PX * arrow[1]);
    else if (arrow && picked === null) pick(nearest(size.width / 2, size.height / 2, 2 * size.width));
    else if (arrow) pick(next(...arrow) ?? picked, { reveal: true });
    else if (event.key === "+" || event.key === "=") zoomAt(ZOOM_STEP);
    else if (event.key === "-") zoomAt(1 / ZOOM_STEP);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") pick(null);
    else return;
    event.preventDefault();
  });

  $("bar").addEventListener("submit", (event) => event.preventDefault());
  $("find").addEventListener("input", update);
  $("names").addEventListener("change", redraw);
  $("in").addEventListener("click", () => zoomAt(ZOOM_STEP));
  $("out").addEventListener("click", () => zoomAt(1 / ZOOM_STEP));
  $("fit").addEventListener("click", fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    if (data) paintSwatches();
    redraw();
  });

  unpack().then(
    (unpacked) => {
      data = unpacked;
      data.level = data.markdown.map(colourIdx);
      data.text = data.title.map((title, idx) => `${title}\n${placeOf(idx)}`.toLowerCase());
      makeGrid();
      readColours();
      makeClusters();
      paintSwatches();
      new ResizeObserver(resize).observe($("stage"));
      resize();
      update();
      $("loading").hidden = true;
      document.documentElement.dataset.ready = "yes";
    },
    (error) => {
      $("loading").textContent = error.message;
    },
  );
})();
