import { NotebookPanel } from '@jupyterlab/notebook';

import { isSwitchedOff, toggleSwitch } from '../src/offSwitch';

function open(metadata: Record<string, unknown>) {
  const model = {
    getMetadata: (key: string) => metadata[key],
    setMetadata: (key: string, value: unknown) => (metadata[key] = value),
    deleteMetadata: (key: string) => Reflect.deleteProperty(metadata, key)
  };
  return { content: { model } } as unknown as NotebookPanel;
}

describe('the off switch', () => {
  it.each([
    [{}, false],
    [{ jupyt5: { enabled: false } }, true],
    [{ jupyt5: { enabled: true } }, false],
    [{ jupyt5: 'no' }, false]
  ])('of %j: %s', (metadata, isOff) => {
    expect(isSwitchedOff(open(metadata))).toBe(isOff);
  });

  it('leaves the metadata as they were when switched back', () => {
    for (const before of [{}, { jupyt5: { other: 1 } }]) {
      const metadata = structuredClone(before);
      const panel = open(metadata);
      toggleSwitch(panel);
      expect(isSwitchedOff(panel)).toBe(true);
      toggleSwitch(panel);
      expect(metadata).toEqual(before);
    }
  });
});
