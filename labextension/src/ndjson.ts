import { FillLine } from './tokens';

/** Split a byte stream into lines of text; blank lines are left out. */
export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = done ? '' : (lines.pop() ?? '');
      yield* lines.filter(each => each.trim() !== '');
      if (done) {
        return;
      }
    }
  } finally {
    // Reached early when the consumer stops: the connection must not stay open.
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * Read one line of a reply.
 *
 * Returns null, with a warning, for a line that is damaged, of unknown type, or not for
 * `requestId`: one bad line must not end a reply.
 */
export function parseLine(text: string, requestId: string): FillLine | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (isFillLine(value) && isFor(value, requestId)) {
    return value;
  }
  console.warn('JuPyT5 dropped a line of a reply:', text.slice(0, 200));
  return null;
}

function isFor(line: FillLine, requestId: string): boolean {
  // A request so malformed that its id could not be read is answered without one.
  return line.request_id === requestId || (line.type === 'error' && line.request_id === null);
}

function isFillLine(value: unknown): value is FillLine {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const fields = value as Record<string, unknown>;
  switch (fields.type) {
    case 'status':
      return typeof fields.state === 'string';
    case 'delta':
    case 'candidate':
      return typeof fields.hypothesis_idx === 'number' && typeof fields.text === 'string';
    case 'verdict':
      return (
        typeof fields.hypothesis_idx === 'number' &&
        typeof fields.verdict === 'string' &&
        Array.isArray(fields.flags)
      );
    case 'done':
      return true;
    case 'error':
      return typeof fields.message === 'string' && typeof fields.code === 'string';
    default:
      return false;
  }
}
