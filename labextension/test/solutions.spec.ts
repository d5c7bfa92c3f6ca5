import { findOpening, findSolutionCells, ISolutionView } from '../src/solutions';

function cell(kind: ISolutionView['kind'], source: string, metadata = {}): ISolutionView {
  return { kind, source, metadata };
}

const SOLUTION = { nbgrader: { solution: true, grade: false, schema_version: 3 } };
const GRADING = { nbgrader: { solution: false, grade: true, schema_version: 3 } };

describe('findSolutionCells', () => {
  it('takes the cells that nbgrader marks and that are still open', () => {
    const cells = [
      cell('markdown', 'Add.', SOLUTION),
      cell('code', '', SOLUTION),
      cell('code', 'assert add(1, 2) == 3', GRADING),
      cell('code', 'def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()', SOLUTION),
      cell('code', '# write it here', SOLUTION),
      cell('code', 'def g():\n    return 1', SOLUTION),
      cell('code', ''),
      cell('code', 'raise NotImplementedError()', GRADING)
    ];
    expect(findSolutionCells(cells)).toEqual([1, 3, 4]);
  });

  it('takes the problems of a DSP notebook', () => {
    const cells = [cell('code', ''), cell('code', '# x', { task_id: 'a' })];
    expect(findSolutionCells(cells)).toEqual([1]);
  });

  it('elsewhere takes blank cells below Markdown, and stubs', () => {
    const cells = [
      cell('code', ''),
      cell('markdown', 'Add.'),
      cell('code', ' \n'),
      cell('code', ''),
      cell('markdown', 'Say.'),
      cell('code', '# only a comment'),
      cell('code', 'def f():\n    raise NotImplementedError'),
      cell('raw', '')
    ];
    expect(findSolutionCells(cells)).toEqual([2, 6]);
  });
});

describe('findOpening', () => {
  const cut = (source: string) => {
    const range = findOpening(source);
    return range && `${source.slice(0, range.start)}▮${source.slice(range.end)}`;
  };

  it.each([
    ['', '▮'],
    ['\n\n', '▮'],
    ['# first\n# second', '# first\n# second▮'],
    ['def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()', 'def f():\n    ▮'],
    ['# YOUR CODE HERE\nraise NotImplementedError()\n\nprint(x)', '▮\n\nprint(x)'],
    ['def f():\n\traise NotImplementedError\n\nf()', 'def f():\n\t▮\n\nf()'],
    ['x = 1', null],
    ['# x\nx = 1', null],
    ['def f(x):\n    if not x:\n        raise NotImplementedError("x")\n    return x', null]
  ])('%j -> %j', (source, wanted) => {
    expect(cut(source)).toBe(wanted);
  });
});
