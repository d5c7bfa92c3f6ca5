import { NotebookPanel } from '@jupyterlab/notebook';

/** The key of the notebook's metadata that holds the switch. */
const KEY = 'jupyt5';

/** Whether the notebook's metadata say `jupyt5.enabled: false`, as a course author may write. */
export function isSwitchedOff(panel: NotebookPanel): boolean {
  return readMetadata(panel).enabled === false;
}

/** Switch the assistant off in a notebook, or on again; this changes the notebook's metadata. */
export function toggleSwitch(panel: NotebookPanel): void {
  const model = panel.content.model;
  const { enabled, ...others } = readMetadata(panel);
  if (enabled !== false) {
    model?.setMetadata(KEY, { ...others, enabled: false });
  } else if (Object.keys(others).length) {
    model?.setMetadata(KEY, others);
  } else {
    model?.deleteMetadata(KEY);
  }
}

function readMetadata(panel: NotebookPanel): Record<string, unknown> {
  const value: unknown = panel.content.model?.getMetadata(KEY);
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
