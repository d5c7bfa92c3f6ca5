import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { FillError, FillLine, FillService, StatusService } from './tokens';

/** Where the assistant stands, as the page shows it; `off` is the administrator's doing. */
export interface IAssistantStatus {
  state: 'unknown' | 'off' | 'idle' | 'loading' | 'ready' | 'busy' | 'offline';
  provider: string;
  reason: string;
}

const UNKNOWN: IAssistantStatus = { state: 'unknown', provider: '', reason: '' };
const OFF_REASON = 'The administrator has turned the assistant off on this server.';

// Pauses between two questions to the server. While nothing is amiss the page's own requests tell.
const CALM_MS = 120_000;
const UNREST_MS = 10_000;
/** A page that gets the focus asks again, but not more often than this. */
const FRESH_MS = 10_000;

// Errors that say something about the provider or the server, not about one request.
const OFFLINE_CODES = new Set(['connection', 'server', 'provider_failed', 'provider_denied']);

/** Knows where the assistant stands: from the page's own requests, and by asking now and then. */
export class StatusMonitor {
  /**
   * @param provider The provider that the reader has set; undefined: the server's.
   */
  constructor(
    private readonly _ask: StatusService,
    private readonly _provider: () => string | undefined
  ) {
    this._poll = new Poll({
      auto: false,
      factory: () => this._update(),
      frequency: { interval: CALM_MS, backoff: false, max: CALM_MS },
      standby: 'when-hidden',
      linger: 0,
      name: 'jupyt5:status'
    });
  }

  /** Emitted when `current` has changed. */
  get changed(): ISignal<this, IAssistantStatus> {
    return this._changed;
  }

  /** What the reader's requests are doing, or else what the server said last. */
  get current(): IAssistantStatus {
    const waiting = [...this._inFlight.values()];
    if (this._server.state === 'off' || waiting.length === 0) {
      return this._server;
    }
    const [shown = UNKNOWN] = waiting.filter(each => each.state === 'loading').concat(waiting);
    return { ...shown, provider: this._server.provider };
  }

  /** Why nothing can be filled in any notebook of this server; or null. */
  get offReason(): string | null {
    return this._server.state === 'off' ? this._server.reason : null;
  }

  /** Begin to ask the server; a page that is not seen asks nothing. */
  async start(): Promise<void> {
    await this._poll.start();
  }

  /** Ask no more. */
  async stop(): Promise<void> {
    await this._poll.stop();
  }

  /** Ask the server now. */
  async refresh(): Promise<void> {
    await this._poll.refresh();
  }

  /** Ask the server if its last answer is old, e.g. when the reader comes back to the page. */
  async refreshIfOld(): Promise<void> {
    if (Date.now() - this._askedAt > FRESH_MS) {
      await this.refresh();
    }
  }

  /** Pass a service's replies on, and take note of what they say. */
  watch(service: FillService): FillService {
    return (request, signal) => this._follow(request.request_id, service(request, signal));
  }

  private async *_follow(id: string, lines: AsyncGenerator<FillLine>): AsyncGenerator<FillLine> {
    this._setInFlight(id, { ...UNKNOWN, state: 'busy' });
    try {
      for await (const line of lines) {
        this._note(id, line);
        yield line;
      }
    } catch (reason) {
      if (reason instanceof FillError) {
        this._noteError(reason.code, reason.message);
      }
      throw reason;
    } finally {
      this._inFlight.delete(id);
      this._emit();
    }
  }

  private _note(id: string, line: FillLine): void {
    if (line.type === 'status') {
      const state = line.state === 'loading' ? 'loading' : 'busy';
      this._setInFlight(id, { ...UNKNOWN, state, reason: line.reason });
    } else if (line.type === 'error') {
      this._noteError(line.code, line.message);
    } else if (this._server.state !== 'ready') {
      this._server = { ...this._server, state: 'ready', reason: '' };
      this._emit();
    }
  }

  private _noteError(code: string, message: string): void {
    if (code === 'disabled') {
      this._set({ ...this._server, state: 'off', reason: message });
    } else if (OFFLINE_CODES.has(code)) {
      this._set({ ...this._server, state: 'offline', reason: message });
      void this.refresh(); // the server may know more, or that it is better already
    }
  }

  private async _update(): Promise<void> {
    this._askedAt = Date.now();
    try {
      const { enabled, provider, state, reason } = await this._ask(this._provider());
      this._set(
        enabled ? { state, provider, reason } : { state: 'off', provider, reason: OFF_REASON }
      );
    } catch (error) {
      const reason =
        error instanceof FillError ? error.message : 'The Jupyter server does not answer.';
      this._set({ ...this._server, state: 'offline', reason });
    }
    this._poll.frequency = { interval: this._choosePause(), backoff: false, max: CALM_MS };
  }

  /** The pause before the next question: the longer the server is away, the longer. */
  private _choosePause(): number {
    const { state } = this._server;
    const isOffline = state === 'offline';
    const restMs = ['loading', 'busy'].includes(state) ? UNREST_MS : CALM_MS;
    const pauseMs = isOffline ? this._offlineMs : restMs;
    this._offlineMs = isOffline ? Math.min(CALM_MS, 2 * pauseMs) : UNREST_MS;
    return pauseMs;
  }

  private _setInFlight(id: string, status: IAssistantStatus): void {
    this._inFlight.set(id, status);
    this._emit();
  }

  private _set(status: IAssistantStatus): void {
    this._server = status;
    this._emit();
  }

  private _emit(): void {
    this._changed.emit(this.current);
  }

  private readonly _poll: Poll<void>;
  private readonly _changed = new Signal<this, IAssistantStatus>(this);
  private readonly _inFlight = new Map<string, IAssistantStatus>();
  private _server = UNKNOWN;
  private _askedAt = 0;
  private _offlineMs = UNREST_MS;
}
