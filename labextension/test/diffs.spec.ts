import { diffLines } from '../src/diffs';

const marks = { same: ' ', added: '+', removed: '-', gap: '~' };
const show = (before: string, after: string) =>
  diffLines(before, after).map(line => marks[line.kind] + line.text);

describe('diffLines', () => {
  it('an empty cell only gets lines', () => {
    expect(show('', 'a = 1\nb = 2')).toEqual(['+a = 1', '+b = 2']);
  });

  it('shows what is replaced and keeps what stands around it', () => {
    expect(show('def f():\n    pass\nx', 'def f():\n    return 1\nx')).toEqual([
      ' def f():',
      '-    pass',
      '+    return 1',
      ' x'
    ]);
  });

  it('folds what is far away', () => {
    const before = ['a', 'b', 'c', 'd', 'e'].join('\n');
    expect(show(before, `${before}\nf`)).toEqual(['~⋯', ' d', ' e', '+f']);
  });

  it('numbers lines in the text that they belong to', () => {
    const lines = diffLines('a\nb\nc', 'a\nx\ny\nc');
    expect(lines.map(line => line.lineIdx)).toEqual([0, 1, 1, 2, 3]);
  });
});
