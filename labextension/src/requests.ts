import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { parseLine, readLines } from './ndjson';
import {
  ContextService,
  FillError,
  FillLine,
  FillService,
  IContextReply,
  IFillRequest,
  IStatusReply,
  StatusService
} from './tokens';

const API = 'jupyt5/api';
/** Longest wait for the next line. The server's own limit for a whole request is shorter. */
const MAX_SILENCE_MS = 150_000;

/** Make the service that sends fill requests to the server of these settings. */
export function createFillService(settings: ServerConnection.ISettings): FillService {
  return (request, signal) => streamFill(request, signal, settings);
}

/** Make the service that asks what of a request would reach the model. */
export function createContextService(settings: ServerConnection.ISettings): ContextService {
  return async request => {
    const response = await ServerConnection.makeRequest(
      URLExt.join(settings.baseUrl, API, 'context'),
      { method: 'POST', body: JSON.stringify(request) },
      settings
    );
    const reply = (await response.json()) as IContextReply & { message?: string };
    if (!response.ok) {
      throw new FillError('server', reply.message ?? `The server answered ${response.status}.`);
    }
    return reply;
  };
}

/** Make the service that asks where the assistant stands. */
export function createStatusService(settings: ServerConnection.ISettings): StatusService {
  return async provider => {
    const query = URLExt.objectToQueryString({
      ...(provider ? { provider: hideSecrets(provider) } : {}),
      no_track_activity: '1' // an open page alone must not keep an idle server from being culled
    });
    const url = URLExt.join(settings.baseUrl, API, 'status') + query;
    const response = await ServerConnection.makeRequest(url, {}, settings);
    if (response.status === 404) {
      throw new FillError('server', 'This Jupyter server does not have JuPyT5 (jupyt5) enabled.');
    }
    const reply = (await response.json()) as IStatusReply & { message?: string };
    if (!response.ok) {
      throw new FillError('server', reply.message ?? `The server answered ${response.status}.`);
    }
    return reply;
  };
}

/**
 * What of a provider's URI may stand in an address, which servers and proxies log: no user, no
 * password, no query. The server refuses to load a URI with those.
 */
function hideSecrets(uri: string): string {
  return uri.includes('://') ? uri.replace(/:\/\/.*@/s, '://').replace(/\?[^#]*/, '') : uri;
}

async function* streamFill(
  request: IFillRequest,
  signal: AbortSignal,
  settings: ServerConnection.ISettings
): AsyncGenerator<FillLine> {
  const connection = new AbortController();
  const abort = () => {
    connection.abort();
    // Closing the connection is enough, unless a proxy keeps it open on the server's side.
    void cancelFill(request.request_id, settings);
  };
  const isAborted = () => signal.aborted;
  if (isAborted()) {
    return;
  }
  signal.addEventListener('abort', abort);
  const watchdog = new Watchdog(MAX_SILENCE_MS, abort);
  try {
    const response = await send(request, connection.signal, settings);
    for await (const text of readLines(response)) {
      watchdog.reset();
      const line = parseLine(text, request.request_id);
      if (line) {
        yield line;
      }
    }
  } catch (reason) {
    if (!isAborted()) {
      throw toFillError(reason);
    }
  } finally {
    watchdog.stop();
    signal.removeEventListener('abort', abort);
    connection.abort();
  }
}

async function send(
  request: IFillRequest,
  signal: AbortSignal,
  settings: ServerConnection.ISettings
): Promise<ReadableStream<Uint8Array>> {
  const response = await ServerConnection.makeRequest(
    URLExt.join(settings.baseUrl, API, 'fill'),
    { method: 'POST', body: JSON.stringify(request), signal },
    settings
  );
  const isNdjson = (response.headers.get('Content-Type') ?? '').includes('ndjson');
  if (!isNdjson || !response.body) {
    throw new FillError('server', `The server answered ${response.status} ${response.statusText}.`);
  }
  return response.body;
}

async function cancelFill(requestId: string, settings: ServerConnection.ISettings): Promise<void> {
  const url = URLExt.join(settings.baseUrl, API, 'fill', encodeURIComponent(requestId));
  try {
    await ServerConnection.makeRequest(url, { method: 'DELETE', keepalive: true }, settings);
  } catch {
    // The server is gone, and the request with it.
  }
}

function toFillError(reason: unknown): FillError {
  if (reason instanceof FillError) {
    return reason;
  }
  const detail = reason instanceof Error ? reason.message : String(reason);
  return new FillError('connection', `The Jupyter server did not answer (${detail}). Try again.`);
}

/** Calls back when it has not been reset for a while. */
class Watchdog {
  constructor(
    private readonly _afterMs: number,
    private readonly _bark: () => void
  ) {
    this.reset();
  }

  reset(): void {
    this.stop();
    this._timer = setTimeout(this._bark, this._afterMs);
  }

  stop(): void {
    clearTimeout(this._timer);
  }

  private _timer: ReturnType<typeof setTimeout> | undefined;
}
