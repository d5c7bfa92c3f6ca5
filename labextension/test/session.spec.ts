import { createHash } from 'crypto';

import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { IConsentDesk } from '../src/consent';
import { CandidatePanel, IPanelView } from '../src/panel';
import { FillSession } from '../src/session';
import { FillLine, FillService, IFillRequest, IFillSettings } from '../src/tokens';

const SETTINGS: IFillSettings = {
  provider: undefined,
  numContextCells: undefined,
  numFollowingCells: undefined,
  kernelFacts: false,
  ghostText: true,
  numCandidates: 3,
  numGhostCandidates: 1,
  recordProvenance: false
};

/** Longer than a candidate that has moved in is kept from being accepted. */
const GUARD_MS = 350;

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

/** Two candidates, the second of them better; in between, a test does something. */
function betterSecond(between: () => void = () => undefined): FillService {
  return async function* ({ request_id }) {
    const candidate = { type: 'candidate' as const, request_id };
    yield { ...candidate, hypothesis_idx: 0, text: 'a = 1', mean_logprob: -0.9 };
    between();
    await pause(0);
    yield { ...candidate, hypothesis_idx: 1, text: 'a = 2', mean_logprob: -0.1 };
  };
}

/** Enough of an open notebook with one code cell for a session to work on. */
function setUp(source: string, service: FillService, below = '', recordProvenance = false) {
  const state = {
    source,
    disposed: false,
    edits: 0,
    metadata: {} as Record<string, unknown>,
    steps: 0
  };
  const cell = {
    model: {
      type: 'code',
      sharedModel: {
        cell_type: 'code',
        getId: () => 'c',
        getSource: () => state.source,
        getMetadata: (key: string) => state.metadata[key],
        setMetadata: (key: string, value: unknown) => (state.metadata[key] = value),
        transact: (change: () => void) => {
          state.steps += 1;
          change();
        },
        updateSource: (start: number, end: number, text: string) => {
          state.edits += session.isEditing ? 1 : 0;
          state.source = state.source.slice(0, start) + text + state.source.slice(end);
        }
      }
    }
  } as unknown as Cell;
  const grading = {
    model: {
      sharedModel: { cell_type: 'code', getId: () => 'g', getSource: () => below }
    }
  } as unknown as Cell;
  const notebook = {
    content: { mode: 'command', widgets: [cell, grading], model: null },
    context: { path: 'a.ipynb' },
    sessionContext: { session: { kernel: { id: 'k' } } },
    isDisposed: false
  } as unknown as NotebookPanel;
  const views: IPanelView[] = [];
  const panel = {
    node: new EventTarget(),
    hasFocus: false,
    render: (view: IPanelView) => views.push(view),
    dispose: () => (state.disposed = true)
  } as unknown as CandidatePanel;
  const controller = new AbortController();
  let allowed = false;
  const consents: IConsentDesk = {
    get: () => Promise.resolve({ allowed, available: true, reason: '' }),
    set: (_, value) => {
      allowed = value;
      return Promise.resolve({ allowed, available: true, reason: '' });
    }
  };
  const context = () => Promise.reject(new Error('not asked'));
  const host = {
    service,
    consents,
    context,
    settings: () => ({ ...SETTINGS, recordProvenance }),
    offReason: () => null,
    makePanel: () => panel
  };
  const session = new FillSession(notebook, cell, host, controller);
  return { state, views, controller, session, panel };
}

/** A generator that counts its steps, as the server's does, and stops when it is told to. */
function countingService(texts: string[], stepMs = 10) {
  const seen = { steps: 0, requests: [] as IFillRequest[] };
  const service: FillService = async function* (request, signal) {
    seen.requests.push(request);
    const request_id = request.request_id;
    for (const [hypothesis_idx, text] of texts.entries()) {
      await new Promise(resolve => setTimeout(resolve, stepMs));
      if (signal.aborted) {
        return;
      }
      seen.steps += 1;
      yield { type: 'candidate', request_id, hypothesis_idx, text, mean_logprob: -hypothesis_idx };
    }
    yield { type: 'done', request_id } satisfies FillLine;
  };
  return { seen, service };
}

describe('FillSession', () => {
  it('asks for as many candidates as the reader wants, and shows what the cell would be', async () => {
    const { seen, service } = countingService(['\ny = 2', '\nz = 3'], 0);
    const { session, views } = setUp('x = 1', service);
    await session.run();
    expect(seen.requests[0]).toMatchObject({ n: 3, prefix: 'x = 1', suffix: '', target_idx: 0 });
    expect(views.at(-1)).toMatchObject({
      before: 'x = 1',
      after: 'x = 1\ny = 2',
      isWorking: false,
      count: 2,
      note: 'Candidate 1 of 2'
    });
  });

  it('stops the generator when it is over, and shows nothing more', async () => {
    const { seen, service } = countingService(['a', 'b', 'c', 'd', 'e', 'f']);
    const { session, controller, views, state } = setUp('', service);
    const run = session.run();
    await new Promise(resolve => setTimeout(resolve, 25));
    controller.abort();
    const [steps, shown] = [seen.steps, views.length];
    await run;
    expect(state.disposed).toBe(true);
    expect(seen.steps).toBeLessThanOrEqual(steps + 1);
    expect(seen.steps).toBeLessThan(6);
    expect(views.length).toBe(shown);
  });

  it('trying again aborts what was being made and asks with another seed', async () => {
    const { seen, service } = countingService(['a', 'b', 'c', 'd']);
    const { session } = setUp('', service);
    const first = session.run();
    await new Promise(resolve => setTimeout(resolve, 15));
    await Promise.all([session.again(), first]);
    expect(seen.requests.map(request => request.seed)).toEqual([undefined, 1]);
    expect(seen.requests[0]?.request_id).not.toBe(seen.requests[1]?.request_id);
    expect(seen.steps).toBeLessThan(8);
  });

  it('accepts part by part as its own edits, then ends', async () => {
    const { service } = countingService(['a\nb', 'a\nc'], 0);
    const { session, controller, views, state } = setUp('# x\n', service);
    await session.run();
    session.accept('line');
    expect([state.source, controller.signal.aborted]).toEqual(['# x\na', false]);
    session.step(1);
    expect(views.at(-1)).toMatchObject({ before: '# x\na', after: '# x\na\nc' });
    session.accept('line');
    expect([state.source, state.edits]).toEqual(['# x\na\nc', 2]);
    expect(controller.signal.aborted).toBe(true);
  });

  it('stays with the candidate that has, or had, the focus', async () => {
    const left = setUp(
      '',
      betterSecond(() => left.panel.node.dispatchEvent(new Event('focusin')))
    );
    const held = setUp('', betterSecond());
    Object.assign(held.panel, { hasFocus: true });
    const other = setUp('', betterSecond());
    const shown = [];
    for (const { session, views } of [left, held, other]) {
      await session.run();
      shown.push(views.at(-1)?.after);
    }
    expect(shown).toEqual(['a = 1', 'a = 1', 'a = 2']);
  });

  it('takes no key for a candidate that has only just moved in', async () => {
    const { session, state } = setUp('', betterSecond());
    await session.run();
    session.accept('whole');
    expect(state.source).toBe('');
    await pause(GUARD_MS);
    session.accept('whole');
    expect(state.source).toBe('a = 2');
    const looked = setUp('', betterSecond());
    await looked.session.run();
    looked.session.step(1);
    looked.session.accept('whole');
    expect(looked.state.source).toBe('a = 1');
  });

  it('accepts nothing that is still being made', async () => {
    let go: () => void = () => undefined;
    const service: FillService = async function* ({ request_id }) {
      yield { type: 'delta', request_id, hypothesis_idx: 0, text: 'a = ' };
      await new Promise<void>(resolve => (go = resolve));
    };
    const { session, state } = setUp('', service);
    const run = session.run();
    await new Promise(resolve => setTimeout(resolve, 5));
    session.accept('whole');
    expect(state.source).toBe('');
    go();
    await run;
  });

  it('passes on what the server says went wrong', async () => {
    const service: FillService = async function* ({ request_id }) {
      yield await Promise.resolve({ type: 'error', request_id, code: 'busy', message: 'Busy.' });
    };
    await expect(setUp('', service).session.run()).rejects.toThrow('Busy.');
  });

  it('tries nothing until the reader allows it, and then says what came of it', async () => {
    const seen: IFillRequest[] = [];
    const service: FillService = async function* (request) {
      seen.push(request);
      const { request_id } = request;
      const common = { request_id, mean_logprob: null };
      yield { type: 'candidate', hypothesis_idx: 0, text: 'a = 1', ...common };
      yield { type: 'candidate', hypothesis_idx: 1, text: 'a = 2', ...common };
      if (request.try) {
        yield { type: 'status', request_id, state: 'trying', reason: 'a thread is running' };
        const judged = { type: 'verdict' as const, request_id, flags: [], wall_s: 0.1 };
        yield { ...judged, hypothesis_idx: 0, verdict: 'wrong', message: 'No.' };
        yield { ...judged, hypothesis_idx: 1, verdict: 'passed' };
      }
      yield await Promise.resolve({ type: 'done' as const, request_id });
    };
    const { session, views } = setUp('', service, 'assert a == 2');
    await session.run();
    expect(seen[0]).toMatchObject({ try: undefined, kernel_id: undefined });
    expect(views.at(-1)).toMatchObject({ after: 'a = 1', trying: { isOn: false } });
    await session.toggleTry();
    expect(seen[1]).toMatchObject({ try: { grading_idx: 1 }, kernel_id: 'k' });
    expect(views.at(-1)).toMatchObject({
      after: 'a = 2',
      trying: { isOn: true },
      note: 'Candidate 1 of 2, ✓ passes the next cell, tried in a fresh kernel: a thread is running'
    });
  });

  it('says why nothing was tried, and offers nothing where no cell can judge', async () => {
    const service: FillService = async function* ({ request_id }) {
      const common = { request_id, hypothesis_idx: 0, mean_logprob: null };
      yield { type: 'status', request_id, state: 'not_tried', reason: 'the kernel is busy' };
      yield await Promise.resolve({ type: 'candidate' as const, text: 'a', ...common });
    };
    const judged = setUp('', service, 'assert a');
    await judged.session.run();
    expect(judged.views.at(-1)?.note).toBe('not tried: the kernel is busy');
    const alone = setUp('', service);
    await alone.session.run();
    expect(alone.views.at(-1)?.trying).toBeNull();
  });

  it('writes down what was accepted where the reader wants it, and nothing else', async () => {
    const service: FillService = async function* ({ request_id }) {
      const candidate = { type: 'candidate' as const, request_id, mean_logprob: -0.5 };
      yield { ...candidate, hypothesis_idx: 0, text: 'a = 1' };
      yield { ...candidate, hypothesis_idx: 1, text: 'naïve = 1\nb = 2' };
      const judged = { type: 'verdict' as const, request_id, wall_s: 0.1 };
      yield { ...judged, hypothesis_idx: 1, verdict: 'passed', flags: ['suspect: x'] };
      const provenance = { provider: 'fake:x', jupyt5_version: '0.1.0', model_sha256: null };
      yield await Promise.resolve({ type: 'done' as const, request_id, order: [1, 0], provenance });
    };
    const silent = setUp('', service, 'assert b');
    await silent.session.run();
    await pause(GUARD_MS);
    silent.session.accept('whole');
    expect([silent.state.metadata, silent.state.steps]).toEqual([{}, 0]);
    const { session, state } = setUp('', service, 'assert b', true);
    state.metadata.jupyt5 = { note: 'kept' };
    await session.run();
    await pause(GUARD_MS);
    session.accept('word');
    session.accept('line');
    session.accept('whole');
    expect([state.source, state.steps]).toEqual(['naïve = 1\nb = 2', 3]);
    const { fills, note } = state.metadata.jupyt5 as { fills: unknown[]; note: string };
    expect(note).toBe('kept');
    expect(fills).toMatchObject([
      { accepted: 'word' },
      { accepted: 'line' },
      { accepted: 'whole' }
    ]);
    expect(fills[0]).toEqual({
      via: 'panel',
      accepted: 'word',
      accepted_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
      provider: 'fake:x',
      jupyt5_version: '0.1.0',
      model_sha256: null,
      hypothesis_idx: 1,
      mean_logprob: -0.5,
      verdict: 'passed',
      flags: ['suspect: x'],
      // sha256sum of the word, in UTF-8
      sha256: createHash('sha256').update('naïve').digest('hex')
    });
  });

  it('records a text without its origin when it is accepted before the reply has ended', async () => {
    const service: FillService = async function* ({ request_id }, signal) {
      const text = 'a = 1';
      yield { type: 'candidate', request_id, hypothesis_idx: 0, text, mean_logprob: null };
      await new Promise(resolve => {
        signal.addEventListener('abort', resolve);
      });
    };
    const { session, state } = setUp('', service, '', true);
    const run = session.run();
    await new Promise(resolve => setTimeout(resolve, 5));
    session.accept('whole');
    await run;
    expect(state.metadata.jupyt5).toMatchObject({ fills: [{ accepted: 'whole', verdict: null }] });
    expect(JSON.stringify(state.metadata)).not.toContain('provider');
  });
});
