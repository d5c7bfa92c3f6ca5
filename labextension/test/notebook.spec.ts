/** Casebook A7.2, A10.5: what of an open notebook goes into a request. */
import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { buildRequest, findLanguage } from '../src/notebook';
import { IFillSettings } from '../src/tokens';

/** As much of the reader's settings as a request is made from. */
const SETTINGS = {
  kernelFacts: false,
  numCandidates: 3,
  numGhostCandidates: 1,
  recordProvenance: false
} as IFillSettings;

function makeCell(id: string, source: string, outputs: unknown[] = []): Cell {
  return {
    model: {
      type: 'code',
      outputs,
      sharedModel: { cell_type: 'code', getId: () => id, getSource: () => source, outputs }
    }
  } as unknown as Cell;
}

/** An open notebook without a kernel. */
function makePanel(metadata: unknown, widgets: Cell[] = []): NotebookPanel {
  return {
    content: { widgets, model: { sharedModel: { metadata } } },
    context: { path: 'a.ipynb' },
    sessionContext: { session: null }
  } as unknown as NotebookPanel;
}

describe('findLanguage, without a kernel', () => {
  it.each([
    ['what the kernel said of itself', { language_info: { name: 'julia' } }, 'julia'],
    ['the kernel that the notebook names', { kernelspec: { language: 'R' } }, 'R'],
    ['nothing', {}, '']
  ])('is %s', (_, metadata, wanted) => {
    expect(findLanguage(makePanel(metadata))).toBe(wanted);
  });
});

describe('buildRequest', () => {
  it('takes no outputs along', () => {
    const output = { output_type: 'stream', name: 'stdout', text: 'x'.repeat(5 * 1024 * 1024) };
    const widgets = [makeCell('a', 'print(text)', [output]), makeCell('b', '')];
    const target = widgets[1] as Cell;
    const slot = { prefix: '', suffix: '' };
    const request = buildRequest(makePanel({}, widgets), target, slot, SETTINGS, { n: 1 });
    expect(JSON.stringify(request).length).toBeLessThan(1000);
    expect(request.cells.map(cell => cell.source)).toEqual(['print(text)', '']);
  });

  it.each([true, false])('asks what made the reply if that is recorded: %s', recordProvenance => {
    const target = makeCell('a', '');
    const settings = { ...SETTINGS, recordProvenance };
    const slot = { prefix: '', suffix: '' };
    const request = buildRequest(makePanel({}, [target]), target, slot, settings, { n: 1 });
    const sent = JSON.parse(JSON.stringify(request)) as Record<string, unknown>;
    expect(sent.provenance).toBe(recordProvenance || undefined);
  });
});
