import { CellKind } from './tokens';

/** A cell as far as it matters for finding what is left to solve. */
export interface ISolutionView {
  kind: CellKind;
  source: string;
  metadata: Record<string, unknown>;
}

/** A part of a cell's source, in UTF-16 units. */
export interface IRange {
  start: number;
  end: number;
}

// What nbgrader leaves where it has cut a solution out. The indentation, a group of its own (Safari
// before 16.4 knows no look-behind), stays in the cell.
const STUB =
  /^([ \t]*)(?:# ?YOUR CODE HERE[^\n]*(?:\n[ \t]*raise NotImplementedError[^\n]*)?|raise NotImplementedError(?:\(\))?[ \t]*(?:#[^\n]*)?)$/im;
const COMMENTS_ONLY = /^(?:[ \t]*(?:#[^\n]*)?(?:\n|$))*$/;

/**
 * Find the cells that wait for a solution.
 *
 * In a notebook that says which cells are for solutions (nbgrader's metadata, or a DSP problem's),
 * only those count; in any other, blank code cells below Markdown, and cells with a stub.
 */
export function findSolutionCells(cells: readonly ISolutionView[]): number[] {
  const isMarked = cells.some(isSolution);
  return cells.flatMap((cell, idx) => {
    const isBlank = cell.source.trim() === '';
    const isWanted = isMarked ? isSolution(cell) : !isBlank || cells[idx - 1]?.kind === 'markdown';
    const isOpen = isMarked || isBlank ? findOpening(cell.source) : STUB.test(cell.source);
    return cell.kind === 'code' && isWanted && isOpen ? [idx] : [];
  });
}

/** Where a solution goes: in place of a stub, or after comments in a cell without code; or null. */
export function findOpening(source: string): IRange | null {
  const stub = STUB.exec(source);
  if (stub) {
    return { start: stub.index + (stub[1] ?? '').length, end: stub.index + stub[0].length };
  }
  if (source.trim() === '') {
    return { start: 0, end: source.length };
  }
  return COMMENTS_ONLY.test(source) ? { start: source.length, end: source.length } : null;
}

function isSolution(cell: ISolutionView): boolean {
  const nbgrader = cell.metadata.nbgrader as { solution?: unknown } | undefined;
  return nbgrader?.solution === true || typeof cell.metadata.task_id === 'string';
}
