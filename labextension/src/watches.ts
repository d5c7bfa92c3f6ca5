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

/**
 * When JupyterLab takes ghost text away, of which it tells no provider: on Escape, when the editor
 * loses the focus, when something is selected, or when the cursor goes back or to another line.
 *
 * @param offset Where the cursor was when the ghost text was asked for, in UTF-16 units.
 */
export function watchDismissal(cell: Cell, offset: number): Watch {
  return onEvent => {
    const editor = cell.editor;
    const onKeydown = (event: KeyboardEvent) => {
      if (event.key === 'Escape') {
        onEvent();
      }
    };
    const onFocusOut = (event: FocusEvent) => {
      const next = event.relatedTarget;
      // The little window with the buttons for ghost text takes the focus, too.
      if (!(next instanceof Element && next.closest(`.jp-InlineCompleter, .cm-editor`))) {
        onEvent();
      }
    };
    const origin = editor?.getPositionAt(offset);
    const onSelection = () => {
      const { start, end } = editor?.getSelection() ?? {};
      const isMoved = start?.line !== origin?.line || (start?.column ?? 0) < (origin?.column ?? 0);
      if (isMoved || start?.line !== end?.line || start?.column !== end?.column) {
        onEvent();
      }
    };
    window.addEventListener('keydown', onKeydown, true);
    editor?.host.addEventListener('focusout', onFocusOut);
    editor?.model.selections.changed.connect(onSelection);
    return () => {
      window.removeEventListener('keydown', onKeydown, true);
      editor?.host.removeEventListener('focusout', onFocusOut);
      editor?.model.selections.changed.disconnect(onSelection);
    };
  };
}

function watchDisposal(widget: NotebookPanel | Cell): Watch {
  return onEvent => {
    widget.disposed.connect(onEvent);
    return () => widget.disposed.disconnect(onEvent);
  };
}
