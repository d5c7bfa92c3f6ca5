import { ISlot } from './tokens';

/**
 * Split a cell's text at an offset counted in Unicode code points.
 *
 * JupyterLab counts completion offsets so, while JavaScript strings are indexed in UTF-16 units.
 */
export function splitAtCodePoint(text: string, offset: number): ISlot {
  let index = 0;
  for (let count = 0; count < offset && index < text.length; count++) {
    index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  }
  return { prefix: text.slice(0, index), suffix: text.slice(index) };
}

/**
 * Cut a range, given in UTF-16 units, out of a cell's text.
 *
 * A border inside a surrogate pair is moved before the pair, so that no half of one is sent.
 */
export function splitAtRange(text: string, start: number, end: number): ISlot {
  const from = alignToCodePoint(text, Math.min(start, end));
  const to = alignToCodePoint(text, Math.max(start, end));
  return { prefix: text.slice(0, from), suffix: text.slice(to) };
}

function alignToCodePoint(text: string, index: number): number {
  const isInsidePair = isBetween(text.charCodeAt(index - 1), 0xd800, 0xdbff);
  return isInsidePair && isBetween(text.charCodeAt(index), 0xdc00, 0xdfff) ? index - 1 : index;
}

function isBetween(value: number, low: number, high: number): boolean {
  return value >= low && value <= high;
}
