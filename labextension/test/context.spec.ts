import { DEFAULT_LIMITS, findGrading, findRefusal, selectCells } from '../src/context';
import { CellKind, ICellView } from '../src/tokens';

const NO_SLOT = { prefix: '', suffix: '' };

function makeCells(...cells: [CellKind, string][]): ICellView[] {
  return cells.map(([kind, source], idx) => ({ id: `c${idx}`, kind, source }));
}

function bytesOf(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length;
}

const EXERCISE = makeCells(
  ['code', 'def add(a, b): return a + b'],
  ['markdown', 'Add three numbers with the helper above; call it `add3`.'],
  ['code', ''],
  ['code', 'assert add3(1, 2, 3) == 6']
);

describe('selectCells', () => {
  it('takes the cells around the target, with kinds and in order', () => {
    expect(selectCells(EXERCISE, 2, NO_SLOT)).toEqual({
      cells: EXERCISE,
      targetIdx: 2,
      slot: NO_SLOT
    });
  });

  it.each([
    ['first', 0],
    ['last', 3]
  ])('takes the %s cell as target', (_, targetIdx) => {
    const slot = { prefix: EXERCISE[targetIdx]?.source ?? '', suffix: '' };
    expect(selectCells(EXERCISE, targetIdx, slot)).toEqual({ cells: EXERCISE, targetIdx, slot });
  });

  it('keeps raw cells, and Markdown after the target, in their places', () => {
    const cells = makeCells(
      ['markdown', 'one'],
      ['raw', 'raw'],
      ['code', ''],
      ['markdown', 'next exercise']
    );
    expect(selectCells(cells, 2, NO_SLOT).cells.map(cell => cell.kind)).toEqual([
      'markdown',
      'raw',
      'code',
      'markdown'
    ]);
  });

  it('works without Markdown, and with one cell', () => {
    const cells = makeCells(['code', 'x = 1']);
    expect(selectCells(cells, 0, { prefix: 'x', suffix: ' = 1' }).targetIdx).toBe(0);
  });

  it('refuses a target that is not there', () => {
    expect(() => selectCells(EXERCISE, 4, NO_SLOT)).toThrow(RangeError);
  });

  it('leaves pictures out of Markdown and keeps the words', () => {
    const picture = 'A'.repeat(2 * 1024 * 1024);
    const cells = makeCells(
      ['markdown', `before ![plot](data:image/png;base64,${picture}) after`],
      ['code', '']
    );
    const chosen = selectCells(cells, 1, NO_SLOT);
    expect(chosen.cells[0]?.source).toBe('before ![plot]() after');
    expect(bytesOf(chosen)).toBeLessThan(65_536);
  });

  it('drops the farthest cells first, fast', () => {
    const lines = Array.from({ length: 40 }, (_, number) => `value_${number} = compute(${number})`);
    const cells = makeCells(
      ...Array.from({ length: 400 }, (_, idx): [CellKind, string] => [
        idx % 3 ? 'code' : 'markdown',
        lines.join('\n')
      ])
    );
    const start = performance.now();
    const chosen = selectCells(cells, 200, NO_SLOT);
    expect(performance.now() - start).toBeLessThan(50);
    expect(bytesOf(chosen)).toBeLessThan(65_536);
    const ids = chosen.cells.map(cell => Number(cell.id.slice(1)));
    expect(ids).toEqual(expect.arrayContaining([198, 199, 200, 201]));
    const before = ids.filter(id => id <= 200);
    expect(before).toEqual(
      Array.from({ length: before.length }, (_, idx) => 201 - before.length + idx)
    );
    expect(before.length).toBeGreaterThan(10);
    expect(chosen.cells[chosen.targetIdx]?.id).toBe('c200');
  });

  it('cuts cells that are too long at a line end, and keeps what is nearest', () => {
    const long = Array.from({ length: 20_000 }, (_, number) => `line ${number} ä`).join('\n');
    const cells = makeCells(['markdown', long], ['code', long], ['code', long]);
    const { cells: kept, slot } = selectCells(cells, 1, { prefix: long, suffix: long });
    expect(bytesOf(kept)).toBeLessThan(DEFAULT_LIMITS.maxBytes + 4096);
    expect(kept[0]?.source).toMatch(/^line \d+ ä\n[^]*line 19999 ä$/);
    expect(kept[2]?.source).toMatch(/^line 0 ä\n[^]*ä\n$/);
    expect(slot.prefix).toMatch(/^line \d+ ä\n[^]*line 19999 ä$/);
    expect(slot.suffix).toMatch(/^line 0 ä\n[^]*ä\n$/);
  });

  it('cuts even a single endless line', () => {
    const endless = '😀'.repeat(100_000);
    const chosen = selectCells(makeCells(['code', endless]), 0, { prefix: endless, suffix: '' });
    expect(chosen.slot.prefix).toMatch(/^(😀)+$/u);
    expect(bytesOf(chosen)).toBeLessThan(65_536);
  });
});

describe('findRefusal', () => {
  const code = (source: string): ICellView => ({ id: 'a', kind: 'code', source });

  it.each(['', 'x = 1', '%%time\nx = 1', '%matplotlib inline', '!ls', 's = """\n%%bash\n"""'])(
    'lets Python be filled: %j',
    source => {
      expect(findRefusal(code(source), 'python')).toBeNull();
    }
  );

  it.each(['%%bash\nls', '%%sql\nselect 1', '%%html', '\n%%bash'])('refuses %j', source => {
    expect(findRefusal(code(source), 'python')).toContain('cell magic');
  });

  it('refuses other languages, and raw cells', () => {
    expect(findRefusal(code(''), 'R')).toContain('R');
    expect(findRefusal(code(''), 'julia')).toContain('julia');
    expect(findRefusal({ id: 'a', kind: 'raw', source: '' }, 'python')).toContain('raw');
    expect(findRefusal({ id: 'a', kind: 'markdown', source: '' }, 'R')).toBeNull();
  });

  it('goes on when no one knows the language', () => {
    expect(findRefusal(code(''), '')).toBeNull();
  });
});

describe('findGrading', () => {
  it.each<[string, [CellKind, string][], number | null]>([
    [
      'the code below',
      [
        ['code', ''],
        ['code', 'assert x']
      ],
      1
    ],
    [
      'blank cells are passed over',
      [
        ['code', ''],
        ['code', ' '],
        ['code', 'assert x']
      ],
      2
    ],
    [
      'not beyond the next exercise',
      [
        ['code', ''],
        ['markdown', 'Next.'],
        ['code', 'y']
      ],
      null
    ],
    ['nothing below', [['code', '']], null],
    [
      'nor for Markdown',
      [
        ['markdown', ''],
        ['code', 'x']
      ],
      null
    ]
  ])('%s', (_, cells, wanted) => {
    expect(findGrading(makeCells(...cells), 0)).toBe(wanted);
  });
});
