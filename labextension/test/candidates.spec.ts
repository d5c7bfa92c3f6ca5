import { readText } from '../src/candidates';
import { FillError } from '../src/tokens';

const ERROR = { type: 'error' as const, request_id: 'r', message: 'Late.' };

describe('readText', () => {
  it('reads what a line brings', () => {
    const line = { request_id: 'r', hypothesis_idx: 0, text: 'x', mean_logprob: null };
    expect(readText({ ...line, type: 'delta' })).toBe('x');
    expect(readText({ ...line, type: 'candidate' })).toBe('x');
    expect(readText({ type: 'done', request_id: 'r' })).toBeNull();
  });

  it('throws what went wrong', () => {
    expect(() => readText({ ...ERROR, code: 'timeout' })).toThrow(
      new FillError('timeout', 'Late.')
    );
  });

  it('is quiet about a request that was cancelled', () => {
    expect(readText({ ...ERROR, code: 'cancelled' })).toBeNull();
  });
});
