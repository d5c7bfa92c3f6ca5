import { FillError, FillLine } from './tokens';

/** The text a line brings, or null if it brings none. */
export function readText(line: FillLine): string | null {
  if (line.type === 'error' && line.code !== 'cancelled') {
    throw new FillError(line.code, line.message);
  }
  return line.type === 'delta' || line.type === 'candidate' ? line.text : null;
}
