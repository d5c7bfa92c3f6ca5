import { CandidateList, firstLine, firstWord } from '../src/list';
import { FillLine } from '../src/tokens';

function delta(hypothesis_idx: number, text: string): FillLine {
  return { type: 'delta', request_id: 'r', hypothesis_idx, text };
}

function done(hypothesis_idx: number, text: string, mean_logprob: number | null = null): FillLine {
  return { type: 'candidate', request_id: 'r', hypothesis_idx, text, mean_logprob };
}

function verdict(hypothesis_idx: number, verdict: string, flags: string[] = []): FillLine {
  return { type: 'verdict', request_id: 'r', hypothesis_idx, verdict, flags, wall_s: 0.1 };
}

function listOf(...lines: FillLine[]): CandidateList {
  const list = new CandidateList();
  for (const line of lines) {
    list.add(line);
  }
  return list;
}

const texts = (list: CandidateList) => list.candidates.map(each => each.text);

describe('CandidateList', () => {
  it('shows a text that grows, and no blank ones', () => {
    const list = listOf(delta(0, 'a ='), delta(0, 'a = 1'), delta(1, ' \n'));
    expect(list.current).toMatchObject({ text: 'a = 1', isFinished: false });
    expect(texts(list)).toEqual(['a = 1']);
  });

  it('cycles both ways and wraps around', () => {
    const list = listOf(done(0, 'a'), done(1, 'b'), done(2, 'c'));
    const seen = [1, 1, 1, -1].map(by => {
      list.step(by);
      return `${list.current?.text} ${list.position + 1}/${list.candidates.length}`;
    });
    expect(seen).toEqual(['b 2/3', 'c 3/3', 'a 1/3', 'c 3/3']);
  });

  it('shows a duplicate once, also while it is being made', () => {
    expect(texts(listOf(done(0, 'a = 1'), delta(1, 'a =')))).toEqual(['a = 1']);
    expect(texts(listOf(done(0, 'a = 1'), done(1, 'a = 1')))).toEqual(['a = 1']);
    expect(texts(listOf(done(0, 'a = 1'), done(1, 'a =')))).toEqual(['a = 1', 'a =']);
  });

  it('drops half a candidate when there is no more to come', () => {
    const list = listOf(delta(0, 'a = '), done(1, 'a = 1'), delta(2, 'b'));
    expect(texts(list)).toEqual(['a = ', 'a = 1', 'b']);
    list.settle();
    expect(texts(list)).toEqual(['a = 1']);
    const half = listOf(delta(0, 'a = '));
    half.settle();
    expect(half.current).toBeNull();
  });

  it('puts passing candidates first, then likelier ones', () => {
    const list = listOf(
      done(0, 'a', -0.9),
      done(1, 'b', -0.2),
      done(2, 'c', -0.5),
      done(3, 'd', -0.1),
      verdict(0, 'passed'),
      verdict(2, 'passed'),
      verdict(3, 'passed', ['suspect: signal handler'])
    );
    expect(texts(list)).toEqual(['a', 'b', 'c', 'd']);
    list.settle();
    expect(texts(list)).toEqual(['c', 'a', 'd', 'b']);
    list.add(verdict(1, 'passed', ['suspect: reads the test']));
    list.add(verdict(3, 'wrong'));
    expect(texts(list)).toEqual(['c', 'a', 'b', 'd']);
    expect(list.current?.text).toBe('c');
  });

  it('takes the order of the server, and puts what that does not name last', () => {
    const list = listOf(
      done(0, 'a', -0.1),
      done(1, 'b', -0.9),
      done(2, 'c', -0.5),
      done(3, 'd', -0.2),
      verdict(0, 'passed', ['suspect: reads the test']),
      verdict(2, 'passed'),
      { type: 'done', request_id: 'r', order: [2, 0, 1], provenance: { provider: 'fake:' } }
    );
    list.settle();
    expect(texts(list)).toEqual(['c', 'a', 'b', 'd']);
    expect(list.provenance).toEqual({ provider: 'fake:' });
  });

  it('stays with what is pinned, whatever comes first then', () => {
    const list = listOf(done(0, 'a'), done(1, 'b'));
    list.pin();
    list.add({ type: 'done', request_id: 'r', order: [1, 0] });
    list.settle();
    expect([list.current?.text, list.position]).toEqual(['a', 1]);
  });

  it('stays with a candidate that the reader has gone to', () => {
    const list = listOf(done(0, 'a', -0.9), done(1, 'b', -0.1), done(2, 'c', -0.5));
    list.step(2);
    list.settle();
    expect([list.current?.text, list.position]).toEqual(['c', 1]);
  });

  it('goes on with what agrees with the accepted part', () => {
    const list = listOf(done(0, 'a = 1\nb = 2'), done(1, 'a = 1\nc = 3'), done(2, 'z'));
    list.take('a = 1');
    expect(texts(list)).toEqual(['\nb = 2', '\nc = 3']);
    list.step(1);
    list.take('\nc');
    expect(texts(list)).toEqual([' = 3']);
    list.take(' = 3');
    expect(list.current).toBeNull();
  });
});

describe('parts', () => {
  it.each([
    ['a = 1\nb', 'a = 1'],
    ['\n    return 1\n', '\n    return 1'],
    ['one', 'one']
  ])('the first line of %j is %j', (text, wanted) => {
    expect(firstLine(text)).toBe(wanted);
  });

  it.each([
    ['mean_x = 1', 'mean_x'],
    [' = 1', ' ='],
    ['\n    return', '\n    return'],
    ['größe+1', 'größe'],
    ['😀 b', '😀'],
    ['  ', '  ']
  ])('the first word of %j is %j', (text, wanted) => {
    expect(firstWord(text)).toBe(wanted);
  });

  it('add up to the whole', () => {
    const text = 'def f(x):\n    """Doc."""\n\n    return x + 1';
    for (const part of [firstLine, firstWord]) {
      let [rest, sum] = [text, ''];
      while (rest) {
        sum += part(rest);
        rest = text.slice(sum.length);
      }
      expect(sum).toBe(text);
    }
  });
});
