import { collectTexts, readText } from '../src/candidates';
import { FillError, FillLine } from '../src/tokens';

function delta(hypothesis_idx: number, text: string): FillLine {
  return { type: 'delta', request_id: 'r', hypothesis_idx, text };
}

async function* reply(...lines: FillLine[]): AsyncGenerator<FillLine> {
  yield* lines;
  yield await Promise.resolve({ type: 'done', request_id: 'r' });
}

describe('collectTexts', () => {
  it('takes the last text of each hypothesis, and each text once', async () => {
    const lines = reply(
      delta(0, 'x'),
      delta(1, 'y = 2'),
      delta(0, 'x = 1'),
      delta(2, 'x = 1'),
      delta(3, ' ')
    );
    expect(await collectTexts(lines)).toEqual(['x = 1', 'y = 2']);
  });

  it('passes an error on', async () => {
    const error: FillLine = { type: 'error', request_id: 'r', code: 'timeout', message: 'Late.' };
    await expect(collectTexts(reply(delta(0, 'x'), error))).rejects.toEqual(
      new FillError('timeout', 'Late.')
    );
  });
});

describe('readText', () => {
  it('is quiet about a request that was cancelled', () => {
    const line: FillLine = { type: 'error', request_id: 'r', code: 'cancelled', message: '' };
    expect(readText(line)).toBeNull();
  });
});
