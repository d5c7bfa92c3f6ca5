/** Casebook A5, A8 and A11: the line to the server, a real one, and what happens when it drops. */
import { createServer, IncomingMessage, Server, ServerResponse } from 'node:http';
import { AddressInfo, Socket } from 'node:net';

import { ServerConnection } from '@jupyterlab/services';

import { createFillService, createStatusService } from '../src/requests';
import { FillError, FillLine, IFillRequest } from '../src/tokens';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const PREFIX = '/user/ana/';
const DONE = { type: 'done', request_id: 'r' };

function makeRequest(): IFillRequest {
  return {
    request_id: 'r',
    notebook_path: 'a.ipynb',
    cells: [{ id: 'a', kind: 'code', source: '' }],
    target_idx: 0,
    prefix: '',
    suffix: '',
    language: 'python',
    n: 1
  };
}

/** A server that answers as a test says, and remembers who asked. */
class FakeJupyter {
  readonly asked: string[] = [];
  readonly addresses: string[] = [];
  readonly sockets = new Set<Socket>();
  answer: Answer = response => {
    begin(response);
    response.end(JSON.stringify(DONE) + '\n');
  };

  async start(port = 0): Promise<void> {
    this._server = createServer((request, response) => {
      this.addresses.push(request.url ?? '');
      this.asked.push(`${request.method} ${new URL(request.url ?? '', 'http://x').pathname}`);
      if (request.method === 'POST') {
        this.answer(response, request);
      } else {
        response.end('{}');
      }
    });
    this._server.on('connection', socket => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
    await new Promise<void>(resolve => this._server.listen(port, '127.0.0.1', resolve));
    this.port = (this._server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const closed = new Promise(resolve => this._server.close(resolve));
    this._server.closeAllConnections();
    await closed;
  }

  port = 0;
  private _server!: Server;
}

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
}

function say(response: ServerResponse, text: string): void {
  const delta = { type: 'delta', request_id: 'r', hypothesis_idx: 0, text };
  response.write(JSON.stringify(delta) + '\n');
}

async function until(condition: () => boolean): Promise<void> {
  for (let round = 0; round < 400 && !condition(); round++) {
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  expect(condition()).toBe(true);
}

describe('the line to the server', () => {
  const server = new FakeJupyter();
  let fill: (signal?: AbortSignal) => AsyncGenerator<FillLine>;

  const collect = async (signal?: AbortSignal) => {
    const lines: FillLine[] = [];
    for await (const line of fill(signal)) {
      lines.push(line);
    }
    return lines;
  };

  beforeEach(async () => {
    await server.start();
    const baseUrl = `http://127.0.0.1:${server.port}${PREFIX}`;
    const service = createFillService(ServerConnection.makeSettings({ baseUrl }));
    fill = (signal = new AbortController().signal) => service(makeRequest(), signal);
  });

  afterEach(async () => {
    await server.stop();
    server.asked.length = 0;
    server.answer = response => {
      begin(response);
      response.end(JSON.stringify(DONE) + '\n');
    };
  });

  it('takes its address from the server settings', async () => {
    await collect();
    expect(server.asked).toEqual(['POST /user/ana/jupyt5/api/fill']);
  });

  it.each<[string, Answer]>([
    ['before the reply', response => response.socket?.destroy()],
    [
      'in the middle of it',
      response => {
        begin(response);
        say(response, 'x');
        setTimeout(() => response.socket?.destroy(), 20);
      }
    ]
  ])('an end %s is told, and the next request works', async (_, answer) => {
    const before = server.answer;
    server.answer = answer;
    await expect(collect()).rejects.toMatchObject({ code: 'connection' });
    server.answer = before;
    expect(await collect()).toEqual([DONE]);
    expect(server.asked.filter(each => each.startsWith('POST'))).toHaveLength(2);
  });

  it('a server that is silent for too long is given up', async () => {
    server.answer = response => {
      begin(response);
      say(response, 'x');
    };
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
    try {
      const lines = fill();
      expect((await lines.next()).value).toMatchObject({ text: 'x' });
      const next = expect(lines.next()).rejects.toBeInstanceOf(FillError);
      jest.advanceTimersByTime(150_001);
      await next;
    } finally {
      jest.useRealTimers();
    }
    await until(() => server.asked.includes('DELETE /user/ana/jupyt5/api/fill/r'));
  });

  it('a server that is gone is told at once, sent to once when it is back, by one line', async () => {
    await collect();
    await server.stop();
    const start = performance.now();
    await expect(collect()).rejects.toMatchObject({ code: 'connection' });
    expect(performance.now() - start).toBeLessThan(2000);
    await server.start(server.port);
    expect(await collect()).toEqual([DONE]);
    expect(server.asked.filter(each => each.startsWith('POST'))).toHaveLength(2);
    expect(server.sockets.size).toBeLessThanOrEqual(1);
  });

  it('lines that make no sense are dropped, and the reply goes on', async () => {
    const warn = jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    server.answer = response => {
      begin(response);
      response.write('no JSON\n{"type": "surprise", "request_id": "r"}\n{"type": "done"}\n');
      say(response, 'x');
      response.end(JSON.stringify(DONE) + '\n');
    };
    expect(await collect()).toMatchObject([{ text: 'x' }, DONE]);
    expect(warn).toHaveBeenCalledTimes(3);
    warn.mockRestore();
  });

  it('aborting closes the connection and tells the server', async () => {
    let isClosed = false;
    server.answer = (response, request) => {
      request.socket.on('close', () => (isClosed = true));
      begin(response);
      say(response, 'x');
    };
    const controller = new AbortController();
    const lines = fill(controller.signal);
    await lines.next();
    controller.abort();
    expect(await lines.next()).toMatchObject({ done: true });
    await until(() => isClosed);
    await until(() => server.asked.includes('DELETE /user/ana/jupyt5/api/fill/r'));
  });

  it('an aborted request is not sent', async () => {
    expect(await collect(AbortSignal.abort())).toEqual([]);
    expect(server.asked).toEqual([]);
  });
});

describe('the question where the assistant stands', () => {
  const server = new FakeJupyter();

  beforeEach(() => server.start());

  afterEach(() => server.stop());

  it.each([
    ['openai:m@https://u:secret@h/v1', 'openai:m@https://h/v1'],
    ['openai:m@https://u:p@ss/secret@h/v1?key=secret&a=b#fim', 'openai:m@https://h/v1#fim'],
    ['openai:m@http://127.0.0.1:11434/v1', 'openai:m@http://127.0.0.1:11434/v1'],
    ['fake:text=a+%3D+1&logprob=-0.5', 'fake:text=a+%3D+1&logprob=-0.5'],
    [undefined, null]
  ])('%s goes as %s', async (provider, wanted) => {
    const baseUrl = `http://127.0.0.1:${server.port}${PREFIX}`;
    await createStatusService(ServerConnection.makeSettings({ baseUrl }))(provider);
    const address = server.addresses.at(-1) ?? '';
    expect(new URL(address, 'http://x').searchParams.get('provider')).toBe(wanted);
    expect(address).not.toContain('secret');
  });
});
