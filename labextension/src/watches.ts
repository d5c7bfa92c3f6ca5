import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { Watch } from './latest';

/**
 * What makes the answer for a cell stale: another active cell, another source, a cell or notebook
 * that is gone.
 *
 * @param isOwnEdit Tells whether a change of the source is ours.
 */
export function watchTarget(
  panel: NotebookPanel,
  cell: Cell,
  isOwnEdit: () => boolean = () => false
): Watch[] {
  return [
    onEvent => {
      const slot = () => {
        onEvent();
      };
      panel.content.activeCellChanged.connect(slot);
      return () => panel.content.activeCellChanged.disconnect(slot);
    },
    watchDisposal(panel),
    ...watchSource(cell, isOwnEdit)
  ];
}

/** What makes a cell another one than was sent: a new source, whoever wrote it, or its end. */
export function watchSource(cell: Cell, isOwnEdit: () => boolean = () => false): Watch[] {
  return [
    onEvent => {
      const shared = cell.model.sharedModel;
      const slot = (_: unknown, change: { sourceChange?: unknown }) => {
        if (change.sourceChange && !isOwnEdit()) {
          onEvent();
        }
      };
      shared.changed.connect(slot);
      return () => shared.changed.disconnect(slot);
    },
    watchDisposal(cell)
  ];
}

function watchDisposal(widget: NotebookPanel | Cell): Watch {
  return onEvent => {
    widget.disposed.connect(onEvent);
    return () => widget.disposed.disconnect(onEvent);
  };
}
