import { diffArrays } from 'diff';

/** A line of a diff; `lineIdx` counts in the new text, for removed lines in the old one. */
export interface IDiffLine {
  kind: 'same' | 'added' | 'removed' | 'gap';
  lineIdx: number;
  text: string;
}

/** Unchanged lines shown before and after a change. */
const NUM_CONTEXT_LINES = 2;

/** Compare two texts line by line; unchanged lines far from any change become a gap. */
export function diffLines(before: string, after: string): IDiffLine[] {
  const lines: IDiffLine[] = [];
  let [beforeIdx, afterIdx] = [0, 0];
  for (const change of diffArrays(toLines(before), toLines(after))) {
    const kind = change.added ? 'added' : change.removed ? 'removed' : 'same';
    for (const text of change.value) {
      lines.push({ kind, text, lineIdx: kind === 'removed' ? beforeIdx : afterIdx });
      beforeIdx += kind === 'added' ? 0 : 1;
      afterIdx += kind === 'removed' ? 0 : 1;
    }
  }
  return foldUnchanged(lines);
}

function toLines(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}

function foldUnchanged(lines: IDiffLine[]): IDiffLine[] {
  const isNear = lines.map((_, idx) =>
    lines
      .slice(Math.max(0, idx - NUM_CONTEXT_LINES), idx + NUM_CONTEXT_LINES + 1)
      .some(line => line.kind !== 'same')
  );
  const folded: IDiffLine[] = [];
  lines.forEach((line, idx) => {
    if (isNear[idx]) {
      folded.push(line);
    } else if (folded.at(-1)?.kind !== 'gap') {
      folded.push({ kind: 'gap', lineIdx: line.lineIdx, text: '⋯' });
    }
  });
  return folded;
}
