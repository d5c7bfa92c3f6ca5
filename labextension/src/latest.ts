/** A way to be told of something; returns how to stop being told. */
export type Watch = (onEvent: () => void) => () => void;

/**
 * Keeps at most one request alive: a new one aborts the one before it, and so does anything
 * that makes its answer stale.
 */
export class LatestOnly {
  /**
   * Start a request, and abort the previous one.
   *
   * @param watches What makes the answer stale, e.g. a change of the cell's source.
   */
  start(watches: readonly Watch[]): AbortController {
    this.abort();
    const controller = new AbortController();
    const stops = watches.map(watch =>
      watch(() => {
        controller.abort();
      })
    );
    controller.signal.addEventListener('abort', () => {
      for (const stop of stops) {
        stop();
      }
    });
    this._current = controller;
    return controller;
  }

  /** Abort the request that is alive, if there is one. */
  abort(): void {
    this._current?.abort();
    this._current = null;
  }

  private _current: AbortController | null = null;
}
