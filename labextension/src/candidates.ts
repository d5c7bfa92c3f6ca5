import { FillError, FillLine } from './tokens';

/** The text a line brings, or null if it brings none. */
export function readText(line: FillLine): string | null {
  if (line.type === 'error' && line.code !== 'cancelled') {
    throw new FillError(line.code, line.message);
  }
  return line.type === 'delta' || line.type === 'candidate' ? line.text : null;
}

/** Read a reply to its end: all different texts, in the order in which they were begun. */
export async function collectTexts(lines: AsyncIterable<FillLine>): Promise<string[]> {
  const texts = new Map<number, string>();
  for await (const line of lines) {
    const text = readText(line);
    if (text !== null && 'hypothesis_idx' in line) {
      texts.set(line.hypothesis_idx, text);
    }
  }
  return [...new Set(texts.values())].filter(text => text.trim() !== '');
}
