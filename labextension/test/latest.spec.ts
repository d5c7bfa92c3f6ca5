import { LatestOnly } from '../src/latest';

describe('LatestOnly', () => {
  it('aborts the request before', () => {
    const latest = new LatestOnly();
    const first = latest.start([]);
    const second = latest.start([]);
    expect([first.signal.aborted, second.signal.aborted]).toEqual([true, false]);
    latest.abort();
    expect(second.signal.aborted).toBe(true);
  });

  it('aborts when an answer becomes stale, and then stops watching', () => {
    let tell: () => void = () => undefined;
    const stop = jest.fn();
    const { signal } = new LatestOnly().start([
      onEvent => {
        tell = onEvent;
        return stop;
      }
    ]);
    expect(signal.aborted).toBe(false);
    tell();
    expect(signal.aborted).toBe(true);
    expect(stop).toHaveBeenCalledTimes(1);
  });
});
