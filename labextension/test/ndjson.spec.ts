import { parseLine, readLines } from '../src/ndjson';

function streamOf(...chunks: (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) {
        controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk);
      }
      controller.close();
    }
  });
}

async function collect(body: ReadableStream<Uint8Array>): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of readLines(body)) {
    lines.push(line);
  }
  return lines;
}

describe('readLines', () => {
  it('joins what came in pieces', async () => {
    expect(await collect(streamOf('{"a"', ': 1}\n{"b": 2', '}\n\n', '{"c": 3}'))).toEqual([
      '{"a": 1}',
      '{"b": 2}',
      '{"c": 3}'
    ]);
  });

  it('joins a character that came in pieces', async () => {
    const bytes = new TextEncoder().encode('😀\n');
    expect(await collect(streamOf(bytes.subarray(0, 2), bytes.subarray(2)))).toEqual(['😀']);
  });

  it('closes the stream when no one reads on', async () => {
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode('x\n'));
      },
      cancel() {
        isCancelled = true;
      }
    });
    for await (const line of readLines(body)) {
      expect(line).toBe('x');
      break;
    }
    expect(isCancelled).toBe(true);
  });
});

describe('parseLine', () => {
  const warn = jest.spyOn(console, 'warn').mockImplementation(() => undefined);

  it('reads a line', () => {
    const line = { type: 'delta', request_id: 'r', hypothesis_idx: 0, text: 'x' };
    expect(parseLine(JSON.stringify(line), 'r')).toEqual(line);
    expect(warn).not.toHaveBeenCalled();
  });

  it.each([
    'not json',
    'null',
    '[]',
    '{"type": "surprise", "request_id": "r"}',
    '{"type": "delta", "request_id": "r", "text": "no index"}',
    '{"type": "done"}',
    '{"type": "done", "request_id": "another"}'
  ])('drops and logs %s', text => {
    expect(parseLine(text, 'r')).toBeNull();
    expect(warn).toHaveBeenCalled();
    warn.mockClear();
  });

  it('takes an error without an id', () => {
    const text = '{"type": "error", "request_id": null, "code": "bad_request", "message": "m"}';
    expect(parseLine(text, 'r')).toMatchObject({ code: 'bad_request' });
  });
});
