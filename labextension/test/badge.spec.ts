import { describeScore, describeVerdict } from '../src/badge';
import { describeContext, describeRequest } from '../src/sent';

const VERDICTS = 'passed wrong error syntax timeout died exit oom limit context invalid'.split(' ');

describe('describeVerdict', () => {
  it.each(VERDICTS)('has words of its own for %s', verdict => {
    const badge = describeVerdict({ verdict, flags: [], message: '' });
    expect(badge.text.slice(2)).not.toBe(verdict);
    expect(badge.tone === 'good').toBe(verdict === 'passed');
  });

  it('doubts a pass with a flag, and says why', () => {
    const flags = ['suspect: signal handler'];
    const badge = describeVerdict({ verdict: 'passed', flags, message: 'All ran.' });
    expect(badge).toEqual({
      text: '? passes the next cell',
      title: 'All ran.\nsuspect: signal handler',
      tone: 'doubtful'
    });
  });

  it('tells a candidate that failed from one that was not judged', () => {
    const tone = (verdict: string) => describeVerdict({ verdict, flags: [], message: '' }).tone;
    expect([tone('wrong'), tone('context')]).toEqual(['bad', 'doubtful']);
  });
});

describe('describeScore', () => {
  it('is a probability', () => {
    expect([describeScore(0), describeScore(-0.5), describeScore(null)]).toEqual([
      '1.00',
      '0.61',
      ''
    ]);
  });
});

describe('what is sent', () => {
  it('shows every cell, and where the text goes', () => {
    const text = describeRequest({
      request_id: 'r',
      notebook_path: 'a.ipynb',
      cells: [
        { id: 'a', kind: 'markdown', source: 'Add.' },
        { id: 'b', kind: 'code', source: 'x = \ny' }
      ],
      target_idx: 1,
      prefix: 'x = ',
      suffix: '\ny',
      language: 'python',
      n: 1
    });
    expect(text).toContain('2 cells');
    expect(text).toContain('[1: markdown]\nAdd.');
    expect(text).toContain('[2: this cell]\nx = ▮\ny');
  });

  it('says why variables that were asked for are missing', () => {
    const reply = { provider: 'p', text: 't', num_tokens: 3, facts: null };
    expect(describeContext({ ...reply, facts_reason: 'the kernel is busy' })).toBe(
      'Of this, p gets 3 tokens:\n\nt\n\nNo variables: the kernel is busy.'
    );
    expect(describeContext({ ...reply, facts_reason: 'not asked for' })).not.toContain('variables');
  });
});
