import { IAssistantStatus, StatusMonitor } from '../src/status';
import { describeStatus } from '../src/statusText';
import { FillError, FillLine, FillService, IFillRequest, IStatusReply } from '../src/tokens';

const READY: IStatusReply = { enabled: true, provider: 'fake:', state: 'ready', reason: '' };

const monitors: StatusMonitor[] = [];

afterEach(async () => {
  await Promise.all(monitors.splice(0).map(each => each.stop()));
});

/** A monitor of a server that answers as `answer` says; what it has asked and shown is kept. */
function setUp(answer: () => IStatusReply = () => READY) {
  const asked: (string | undefined)[] = [];
  const monitor = new StatusMonitor(
    provider => {
      asked.push(provider);
      return new Promise(resolve => {
        resolve(answer());
      });
    },
    () => 'fake:'
  );
  monitors.push(monitor);
  const shown: string[] = [];
  monitor.changed.connect((_, { state }) => {
    if (shown.at(-1) !== state) {
      shown.push(state);
    }
  });
  return { asked, monitor, shown };
}

async function send(monitor: StatusMonitor, lines: FillLine[], error?: Error) {
  const service: FillService = async function* () {
    yield* lines;
    await Promise.resolve();
    if (error) {
      throw error;
    }
  };
  const request = { request_id: 'r' } as IFillRequest;
  const passedOn: FillLine[] = [];
  for await (const line of monitor.watch(service)(request, new AbortController().signal)) {
    passedOn.push(line);
  }
  return passedOn;
}

const pause = () => new Promise(resolve => setTimeout(resolve, 20));
const status = (state: string, reason = ''): FillLine => ({
  type: 'status',
  request_id: 'r',
  state,
  reason
});
const TEXT: FillLine = { type: 'delta', request_id: 'r', hypothesis_idx: 0, text: 'a' };
const FAILED: FillLine = {
  type: 'error',
  request_id: 'r',
  code: 'provider_failed',
  message: 'No.'
};

describe('StatusMonitor', () => {
  it('asks once at the start and then leaves the server alone', async () => {
    const { asked, monitor } = setUp();
    await monitor.start();
    await pause();
    await monitor.refreshIfOld();
    expect(asked).toEqual(['fake:']);
    expect(monitor.current).toEqual({ state: 'ready', provider: 'fake:', reason: '' });
  });

  it("follows the page's own requests, and asks nothing for it", async () => {
    const { asked, monitor, shown } = setUp(() => ({ ...READY, state: 'idle' }));
    await monitor.start();
    await pause();
    const lines = [status('loading'), status('generating'), TEXT];
    expect(await send(monitor, lines)).toEqual(lines);
    expect(shown).toEqual(['idle', 'busy', 'loading', 'busy', 'ready']);
    expect(asked.length).toBe(1);
  });

  it('says why it is offline, asks the server, and is well again with the next text', async () => {
    let reply: IStatusReply = READY;
    const { asked, monitor, shown } = setUp(() => reply);
    await monitor.start();
    await pause();
    reply = { ...READY, state: 'offline', reason: 'The key is wrong.' };
    await send(monitor, [FAILED]);
    await pause();
    expect(monitor.current).toMatchObject({ state: 'offline', reason: 'The key is wrong.' });
    expect(asked.length).toBe(2);
    await send(monitor, [TEXT]);
    expect(shown).toEqual(['ready', 'busy', 'offline', 'busy', 'ready']);
  });

  it('takes a line that drops for a server that is away', async () => {
    const { monitor } = setUp(() => {
      throw new TypeError('Failed to fetch');
    });
    await expect(send(monitor, [], new FillError('connection', 'Gone.'))).rejects.toThrow('Gone.');
    expect(monitor.current).toMatchObject({ state: 'offline', reason: 'Gone.' });
    await pause();
    expect(monitor.current.reason).toBe('The Jupyter server does not answer.');
  });

  it('asks a server that is away ever less often, down to every two minutes', async () => {
    jest.useFakeTimers();
    try {
      let isAway = true;
      const times: number[] = [];
      const start = Date.now();
      const { monitor } = setUp(() => {
        times.push(Math.round((Date.now() - start) / 1000));
        if (isAway) {
          throw new TypeError('Failed to fetch');
        }
        return READY;
      });
      await monitor.start();
      await jest.advanceTimersByTimeAsync(400_000);
      expect(times).toEqual([0, 10, 30, 70, 150, 270, 390]);
      isAway = false;
      await jest.advanceTimersByTimeAsync(120_000);
      isAway = true;
      await jest.advanceTimersByTimeAsync(140_000);
      expect(times.slice(7)).toEqual([510, 630, 640, 660]);
    } finally {
      jest.useRealTimers();
    }
  });

  it('leaves errors of a single request alone', async () => {
    const { asked, monitor } = setUp();
    await monitor.start();
    await pause();
    await send(monitor, [{ ...FAILED, code: 'no_context' }]);
    expect([monitor.current.state, asked.length]).toEqual(['ready', 1]);
  });

  it('knows that the administrator has turned the assistant off, from either source', async () => {
    const asking = setUp(() => ({ ...READY, enabled: false })).monitor;
    expect(asking.offReason).toBeNull();
    await asking.start();
    await pause();
    expect(asking.offReason).toContain('administrator');
    const told = setUp().monitor;
    await send(told, [{ ...FAILED, code: 'disabled' }]);
    expect([told.current.state, told.offReason]).toEqual(['off', 'No.']);
  });
});

describe('a page that is not seen', () => {
  it('asks nothing, whether on its own or when told to', async () => {
    // What lumino's polls look at, once, when they are loaded.
    const hidden = { visibilityState: 'hidden', addEventListener: () => undefined };
    Object.assign(globalThis, { document: hidden });
    try {
      await jest.isolateModulesAsync(async () => {
        const fresh = await import('../src/status');
        const ask = jest.fn(() => Promise.resolve(READY));
        const monitor = new fresh.StatusMonitor(ask, () => undefined);
        monitors.push(monitor);
        await monitor.start();
        await monitor.refresh();
        await pause();
        expect(ask).not.toHaveBeenCalled();
      });
    } finally {
      Reflect.deleteProperty(globalThis, 'document');
    }
  });
});

describe('the words of the status', () => {
  const base: IAssistantStatus = { state: 'offline', provider: 'openai:m@h', reason: 'Error 401.' };

  it.each([
    [base, 'JuPyT5: offline', 'JuPyT5 is offline. Provider openai:m@h. Error 401.'],
    [
      { ...base, state: 'ready', reason: '' },
      'JuPyT5: ready',
      'JuPyT5 is ready. Provider openai:m@h.'
    ],
    [{ ...base, state: 'off', reason: 'No.' }, 'JuPyT5: off', 'JuPyT5 is off. No.'],
    [
      { ...base, provider: '', state: 'unknown', reason: '' },
      'JuPyT5: …',
      'JuPyT5 is not known yet. Asking the server.'
    ]
  ] as [IAssistantStatus, string, string][])('%j', (status, text, title) => {
    expect(describeStatus(status)).toEqual({ text, title });
  });
});
