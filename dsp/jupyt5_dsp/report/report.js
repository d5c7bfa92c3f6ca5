"use strict";
// The only script of the page. Every text of a run reaches the page through textContent alone.
(() => {
  const PAGE_ROWS = 100;
  const MAX_DIFF_CELLS = 1_000_000;
  const KEPT_BLOCKS = 6;
  const SAMPLE_MARK = "⟨ the sample ⟩";
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  function el(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  async function unpack(id) {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("This browser is too old to open the samples: it has no DecompressionStream.");
    }
    const text = atob($(id).textContent);
    const bytes = new Uint8Array(text.length);
    for (let idx = 0; idx < text.length; idx++) bytes[idx] = text.charCodeAt(idx);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  const blocks = new Map();
  async function openBlock(idx) {
    const block = blocks.get(idx) ?? (await unpack(`b${idx}`));
    blocks.delete(idx);
    blocks.set(idx, block);
    if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
    return block;
  }

  // ---- The table of problems -------------------------------------------------------------------

  const share = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
  const rate = (row) => (row.n ? row.c / row.n : null);
  const COLUMNS = [
    { name: "problem", of: (row) => row.id },
    // Programs have no notebook, and one function for all of them says nothing.
    { name: "notebook", of: (row) => row.notebook, shown: (rows) => rows.some((row) => row.notebook) },
    {
      name: "function",
      of: (row) => row.function,
      shown: (rows) => new Set(rows.map((row) => row.function)).size > 1,
    },
    { name: "passed", number: true, of: (row) => row.c, text: (row) => `${row.c} / ${row.n}` },
    { name: "pass rate", number: true, of: rate, text: (row) => share(rate(row)) },
    {
      name: "CodeBLEU",
      number: true,
      of: (row) => row.codebleu,
      text: (row) => (row.codebleu === null ? "–" : row.codebleu.toFixed(3)),
    },
    { name: "flagged", number: true, of: (row) => row.flagged },
    { name: "verdicts", of: (row) => row.n - row.c, node: drawVerdicts },
    { name: "usable", of: (row) => row.usable + row.reason, text: describeUse },
  ];
  const SHOWN = {
    all: () => true,
    usable: (row) => row.usable === "yes",
    unusable: (row) => row.usable !== "yes",
    solved: (row) => row.usable === "yes" && row.c > 0,
    never: (row) => row.usable === "yes" && row.n > 0 && row.c === 0,
    always: (row) => row.usable === "yes" && row.n > 0 && row.c === row.n,
    flagged: (row) => row.flagged > 0,
  };
  let columns = [];
  const collator = new Intl.Collator("en", { numeric: true });
  let problems = [];
  let visible = [];
  let numShown = PAGE_ROWS;
  let sorting = { column: null, falling: false };

  function describeUse(row) {
    return row.usable === "yes" ? "yes" : `${row.usable} (reference: ${row.reference}). ${row.reason}`;
  }

  function drawVerdicts(row) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "stack");
    svg.setAttribute("viewBox", "0 0 100 10");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    const label = row.verdicts.map(([kind, count]) => `${kind} ${count}`).join(", ") || "no samples";
    svg.setAttribute("aria-label", label);
    svg.append(document.createElementNS(SVG, "title"));
    svg.firstChild.textContent = label;
    const total = row.verdicts.reduce((sum, [, count]) => sum + count, 0);
    let at = 0;
    for (const [kind, count] of row.verdicts) {
      const rect = document.createElementNS(SVG, "rect");
      const width = (100 * count) / total;
      rect.setAttribute("class", `v-${kind}`);
      rect.setAttribute("x", at);
      rect.setAttribute("width", width);
      rect.setAttribute("height", 10);
      svg.append(rect);
      at += width;
    }
    return svg;
  }

  function makeHead() {
    columns = COLUMNS.filter((column) => column.shown?.(problems) ?? true);
    for (const column of columns) {
      const button = el("button", { type: "button", textContent: column.name });
      const cell = el("th", { scope: "col", className: column.number ? "n" : "" }, button);
      cell.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const again = sorting.column === column;
        sorting = { column, falling: again ? !sorting.falling : Boolean(column.number) };
        for (const other of $("head").children) other.setAttribute("aria-sort", "none");
        cell.setAttribute("aria-sort", sorting.falling ? "descending" : "ascending");
        update();
      });
      $("head").append(cell);
    }
  }

  function compare(first, second) {
    const [a, b] = [sorting.column.of(first), sorting.column.of(second)];
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "number" ? a - b : collator.compare(a, b);
    return sorting.falling ? -order : order;
  }

  function update() {
    const wanted = $("find").value.trim().toLowerCase();
    visible = problems.filter(
      (row) =>
        SHOWN[$("show").value](row) &&
        (!wanted || `${row.id}\n${row.notebook}\n${row.function}`.toLowerCase().includes(wanted)),
    );
    if (sorting.column) visible.sort(compare);
    numShown = PAGE_ROWS;
    $("rows").replaceChildren();
    appendRows();
  }

  function appendRows() {
    const from = $("rows").childElementCount;
    $("rows").append(...visible.slice(from, numShown).map(makeRow));
    $("more").hidden = visible.length <= numShown;
    const shown = Math.min(numShown, visible.length);
    $("count").textContent =
      `${shown.toLocaleString("en")} of ${visible.length.toLocaleString("en")} problems`;
  }

  // Some suites name their problems by digests.
  function shorten(name) {
    return /^[0-9a-f]{32,}$/.test(name) ? `${name.slice(0, 12)}…` : name;
  }

  function makeRow(row) {
    const open = el("button", { type: "button", textContent: shorten(row.id), title: row.id });
    open.setAttribute("aria-label", `Open the samples of ${row.id}`);
    const line = el("tr", {}, el("td", {}, open));
    for (const column of columns.slice(1)) {
      const content = column.node?.(row) ?? String((column.text ?? column.of)(row));
      line.append(el("td", { className: column.number ? "n" : "" }, content));
    }
    line.addEventListener("click", () => showProblem(row));
    return line;
  }

  // ---- The samples of one problem ----------------------------------------------------------------

  let current = null;
  let part = null;

  function describePrompt({ prompt }) {
    if (!prompt) return "";
    const cut = prompt.num_left_out ? `, of which ${prompt.num_left_out.toLocaleString("en")} were cut` : "";
    const whole = prompt.num_tokens + (prompt.num_left_out ?? 0);
    return `prompt of ${prompt.is_estimate ? "about " : ""}${whole.toLocaleString("en")} tokens${cut}`;
  }

  async function showProblem(row) {
    current = row;
    $("viewer-title").textContent = row.id;
    $("viewer-note").textContent =
      [row.notebook, row.function && `function ${row.function}`, describePrompt(row), `${row.c} of ${row.n} count as passed`]
        .filter(Boolean)
        .join(" · ") +
      (row.usable === "yes" ? "" : ` · not usable: ${row.reason}`);
    const ends = row.places.map(((sum) => ([, , count]) => (sum += count))(0));
    $("part").replaceChildren(
      ...ends.map((end, idx) =>
        el("option", { value: idx, textContent: `${end - row.places[idx][2] + 1} to ${end}` }),
      ),
    );
    $("part-label").hidden = row.places.length < 2;
    if (!$("viewer").open) $("viewer").showModal();
    $("previous").disabled = visible.indexOf(row) <= 0;
    $("next").disabled = visible.indexOf(row) >= visible.length - 1;
    await showPart(0);
    $("viewer-title").focus();
  }

  async function showPart(idx) {
    const place = current.places[idx];
    part = null;
    $("samples").replaceChildren();
    $("verdict").replaceChildren();
    $("sample").replaceChildren();
    if (!place) {
      $("sample").textContent = "This problem has no graded samples.";
      return;
    }
    const row = current;
    let block;
    try {
      block = await openBlock(place[0]);
    } catch (error) {
      $("sample").textContent = String(error.message ?? error);
      return;
    }
    if (row !== current) return; // Another problem was opened in the meantime.
    part = block[place[1]];
    const counts = new Map([["all", part.samples.length]]);
    for (const [, verdict] of part.samples) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
    const numFlagged = part.samples.filter((sample) => sample[6].length).length;
    if (numFlagged) counts.set("flagged", numFlagged);
    $("verdict").replaceChildren(
      ...[...counts].map(([kind, count]) =>
        el("option", { value: kind, textContent: `${kind} (${count})` }),
      ),
    );
    listSamples();
  }

  function listSamples() {
    const kind = $("verdict").value;
    const samples = part.samples.filter(
      (sample) =>
        kind === "all" || sample[1] === kind || (kind === "flagged" && sample[6].length > 0),
    );
    $("samples").replaceChildren(...samples.map(makeEntry));
    $("samples").querySelector("button")?.click();
  }

  function makeEntry(sample) {
    const [idx, verdict, , , , , flags] = sample;
    const button = el(
      "button",
      { type: "button" },
      el("span", { className: `swatch v-${verdict}` }),
      `${idx} · ${verdict}${flags.length ? " · flagged" : ""}`,
    );
    button.addEventListener("click", () => {
      for (const other of $("samples").querySelectorAll('[aria-current="true"]')) {
        other.removeAttribute("aria-current");
      }
      button.setAttribute("aria-current", "true");
      showSample(sample);
    });
    return el("li", {}, button);
  }

  function showSample(sample) {
    const [idx, verdict, source, message, output, traceback, flags, isolation, reason, cold, wall, logprob, raw] =
      sample;
    const text = (at) => part.texts[at];
    const whole = (completion) => (part.prefix ?? "") + completion + (part.suffix ?? "");
    const same = part.samples.filter((other) => other[2] === source).length;
    const notes = [
      ...flags.map((flag) => `flag: ${text(flag)}`),
      text(isolation) && `isolation: ${text(isolation)}${text(reason) ? ` (${text(reason)})` : ""}`,
      cold && "run again in a fresh interpreter",
      wall !== null && `${wall} s`,
      logprob !== null && `mean log-likelihood ${logprob.toFixed(3)}`,
      same > 1 && `${same} samples have this text`,
    ];
    const note = notes.filter(Boolean).join(" · ");
    const sections = [
      el("h3", { textContent: `Sample ${idx}: ${verdict}` }),
      el("p", { className: "note", textContent: note }),
    ];
    const add = (label, content) => {
      if (content) sections.push(el("h3", { textContent: label }), el("pre", { textContent: content }));
    };
    add("Message", text(message));
    const pair = [
      el("div", {}, el("h3", { textContent: "Source" }), el("pre", { textContent: whole(text(source)) })),
    ];
    if (part.reference !== undefined) {
      const diff = drawDiff(part.reference, text(source));
      pair.push(el("div", {}, el("h3", { textContent: "Difference from the reference" }), diff));
    }
    sections.push(el("div", { className: "two" }, ...pair));
    add("As the model wrote it, before it was cut and cleaned", text(raw));
    add("Output", text(output));
    add("Traceback", text(traceback));
    for (const cell of part.grading ?? []) add(current.notebook ? "Grading cell" : "Test", cell);
    if (part.before || part.after) {
      add("Test program, without the sample", `${part.before}${SAMPLE_MARK}${part.after}`);
    }
    $("sample").replaceChildren(...sections);
    $("sample").scrollTop = 0;
  }

  function drawDiff(before, after) {
    const node = el("pre");
    if (before.trim() === after.trim()) {
      node.textContent = "None: it is the reference.";
      return node;
    }
    for (const [kind, line] of diffLines(before.trimEnd().split("\n"), after.trimEnd().split("\n"))) {
      if (kind === " ") node.append(`  ${line}\n`);
      else node.append(el(kind === "+" ? "ins" : "del", { textContent: `${kind} ${line}` }));
    }
    return node;
  }

  // Longest common subsequence of lines, after equal heads and tails are set apart.
  function diffLines(before, after) {
    let head = 0;
    while (head < before.length && head < after.length && before[head] === after[head]) head++;
    let tail = 0;
    while (
      tail < Math.min(before.length, after.length) - head &&
      before[before.length - 1 - tail] === after[after.length - 1 - tail]
    ) {
      tail++;
    }
    const [a, b] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
    const same = (lines) => lines.map((line) => [" ", line]);
    const middle =
      a.length * b.length > MAX_DIFF_CELLS
        ? [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])]
        : diffMiddle(a, b);
    return [...same(before.slice(0, head)), ...middle, ...same(before.slice(before.length - tail))];
  }

  function diffMiddle(a, b) {
    const width = b.length + 1;
    const lengths = new Uint32Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) {
        lengths[i * width + j] =
          a[i] === b[j]
            ? lengths[(i + 1) * width + j + 1] + 1
            : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
      }
    }
    const found = [];
    let [i, j] = [0, 0];
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) {
        found.push([" ", a[i++]]);
        j++;
      } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
        found.push(["-", a[i++]]);
      } else {
        found.push(["+", b[j++]]);
      }
    }
    return found;
  }

  // ---- Wiring ------------------------------------------------------------------------------------

  function step(by) {
    const row = visible[visible.indexOf(current) + by];
    if (row) showProblem(row);
  }

  function moveInList(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const buttons = [...$("samples").querySelectorAll("button")];
    const target = buttons[buttons.indexOf(document.activeElement) + by];
    target?.focus();
    target?.click();
  }

  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("find").addEventListener("input", update);
  $("show").addEventListener("change", update);
  $("more").addEventListener("click", () => {
    numShown += 5 * PAGE_ROWS;
    appendRows();
  });
  $("close").addEventListener("click", () => $("viewer").close());
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("part").addEventListener("change", () => showPart(Number($("part").value)));
  $("verdict").addEventListener("change", listSamples);
  $("samples").addEventListener("keydown", moveInList);
  unpack("index").then(
    (rows) => {
      problems = rows;
      makeHead();
      update();
      document.documentElement.dataset.ready = "yes";
    },
    (error) => ($("count").textContent = String(error.message ?? error)),
  );
})();
