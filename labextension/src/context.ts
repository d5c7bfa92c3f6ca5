import { ICellView, ISlot } from './tokens';

/** The cells of a request, and where the target stands among them. */
export interface IWindow {
  cells: ICellView[];
  targetIdx: number;
  slot: ISlot;
}

/** How much a request may hold. The model sees far less: these only bound its size. */
export interface IWindowLimits {
  maxBytes: number;
  maxCellsBefore: number;
  maxCellsAfter: number;
}

export const DEFAULT_LIMITS: IWindowLimits = {
  maxBytes: 49_152,
  maxCellsBefore: 64,
  maxCellsAfter: 12
};

// Shares of `maxBytes` for what is never dropped: the target, and its two neighbours.
const TARGET_SHARE = 0.3;
const NEIGHBOUR_SHARE = 0.2;

const DATA_URI = /data:[\w.+-]*\/?[\w.+-]*(?:;[\w.+=-]+)*;base64,[A-Za-z0-9+/=_-]*/g;
const PYTHON_CELL_MAGICS = new Set(['capture', 'prun', 'time', 'timeit']);
const PYTHON = /^i?python[\d.]*$/i;

const encoder = new TextEncoder();

/**
 * Choose the cells around a target that go into a request.
 *
 * The farthest cells are dropped first. The cell above, the nearest Markdown above, the target and
 * the cell below always stay; where one of them is too long, the part nearest the slot is kept.
 */
export function selectCells(
  cells: readonly ICellView[],
  targetIdx: number,
  slot: ISlot,
  limits: IWindowLimits = DEFAULT_LIMITS
): IWindow {
  const target = cells[targetIdx];
  if (!target) {
    throw new RangeError(`There is no cell ${targetIdx} among ${cells.length}.`);
  }
  const targetBytes = Math.floor((limits.maxBytes * TARGET_SHARE) / 2);
  const cutSlot = {
    prefix: keepEnd(slot.prefix, targetBytes),
    suffix: keepStart(slot.suffix, targetBytes)
  };
  const kept = new Map<number, ICellView>([
    [targetIdx, { ...target, source: cutSlot.prefix + cutSlot.suffix }]
  ]);
  let room = limits.maxBytes - numBytes(cutSlot.prefix + cutSlot.suffix);
  const mustStay = new Set([targetIdx - 1, targetIdx + 1, findMarkdownAbove(cells, targetIdx)]);
  const neighbourBytes = Math.floor(limits.maxBytes * NEIGHBOUR_SHARE);
  for (const idx of orderByDistance(cells.length, targetIdx, limits)) {
    const cell = cells[idx];
    if (!cell) {
      continue;
    }
    let source = stripData(cell);
    if (mustStay.has(idx)) {
      source = (idx < targetIdx ? keepEnd : keepStart)(source, neighbourBytes);
    } else if (numBytes(source) > room - reserve(mustStay, kept, neighbourBytes)) {
      continue;
    }
    room -= numBytes(source);
    kept.set(idx, { ...cell, source });
  }
  const order = [...kept.keys()].sort((a, b) => a - b);
  return {
    cells: order.flatMap(idx => kept.get(idx) ?? []),
    targetIdx: order.indexOf(targetIdx),
    slot: cutSlot
  };
}

/** The cell that can judge the target: the next one that is not blank, if it is code; or null. */
export function findGrading(cells: readonly ICellView[], targetIdx: number): number | null {
  const idx = cells.findIndex((cell, each) => each > targetIdx && cell.source.trim() !== '');
  return cells[targetIdx]?.kind === 'code' && cells[idx]?.kind === 'code' ? idx : null;
}

/** Why a cell cannot be filled, or null if it can. The server checks again. */
export function findRefusal(target: ICellView, language: string): string | null {
  if (target.kind === 'raw') {
    return 'A raw cell cannot be filled. Change it to a code or Markdown cell first.';
  }
  if (target.kind === 'markdown') {
    return null;
  }
  if (language && !PYTHON.test(language)) {
    return `This notebook is in ${language}; JuPyT5 fills code cells in Python only.`;
  }
  const magic = /^\s*%%(\S+)/.exec(target.source)?.[1];
  if (magic && !PYTHON_CELL_MAGICS.has(magic)) {
    return `The cell magic %%${magic} makes this cell something else than Python.`;
  }
  return null;
}

function findMarkdownAbove(cells: readonly ICellView[], targetIdx: number): number {
  for (let idx = targetIdx - 1; idx >= 0; idx--) {
    if (cells[idx]?.kind === 'markdown') {
      return idx;
    }
  }
  return -1;
}

/** The neighbours first, then outwards, as far as the limits go. */
function* orderByDistance(
  numCells: number,
  targetIdx: number,
  limits: IWindowLimits
): Generator<number> {
  const farthest = Math.max(limits.maxCellsBefore, limits.maxCellsAfter);
  for (let distance = 1; distance <= farthest; distance++) {
    if (distance <= limits.maxCellsBefore && targetIdx - distance >= 0) {
      yield targetIdx - distance;
    }
    if (distance <= limits.maxCellsAfter && targetIdx + distance < numCells) {
      yield targetIdx + distance;
    }
  }
}

function reserve(mustStay: Set<number>, kept: Map<number, ICellView>, bytes: number): number {
  return [...mustStay].filter(idx => idx >= 0 && !kept.has(idx)).length * bytes;
}

/** Pictures pasted into Markdown are no words. */
function stripData(cell: ICellView): string {
  return cell.kind === 'markdown' ? cell.source.replace(DATA_URI, '') : cell.source;
}

function keepEnd(text: string, maxBytes: number): string {
  if (numBytes(text) <= maxBytes) {
    return text;
  }
  const bytes = encoder.encode(text);
  const tail = decode(bytes.subarray(bytes.length - maxBytes));
  const lineEnd = tail.indexOf('\n');
  return lineEnd >= 0 && lineEnd < tail.length - 1 ? tail.slice(lineEnd + 1) : tail;
}

function keepStart(text: string, maxBytes: number): string {
  if (numBytes(text) <= maxBytes) {
    return text;
  }
  const head = decode(encoder.encode(text).subarray(0, maxBytes));
  const lineEnd = head.lastIndexOf('\n');
  return lineEnd > 0 ? head.slice(0, lineEnd + 1) : head;
}

/** Decode a piece of UTF-8 whose borders may lie inside a character; such halves are dropped. */
function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(/^\ufffd+|\ufffd+$/g, '');
}

function numBytes(text: string): number {
  // Most text is short and its exact size does not matter unless it is near a limit.
  return text.length * 3 < 1024 ? text.length : encoder.encode(text).length;
}
