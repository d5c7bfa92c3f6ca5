import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { CellKind, ICellView, IFillRequest, IFillSettings, ISlot } from './tokens';
import { selectCells } from './context';
import { splitAtRange } from './offsets';

/** Read a cell from the open document: what is on disk may be older. */
export function viewCell(cell: Cell): ICellView {
  const shared = cell.model.sharedModel;
  return { id: shared.getId(), kind: shared.cell_type as CellKind, source: shared.getSource() };
}

/** The language of the notebook's kernel; without a kernel, that of its metadata; else ''. */
export function findLanguage(panel: NotebookPanel): string {
  // JupyterLab writes what the kernel says into the metadata when a kernel starts.
  const metadata = panel.content.model?.sharedModel.metadata;
  const language = metadata?.language_info?.name || metadata?.kernelspec?.language;
  return typeof language === 'string' ? language : '';
}

/**
 * Where new text goes in a cell: at the cursor, in place of a selection, or at the end of a cell
 * that is not being edited.
 */
export function findSlot(
  panel: NotebookPanel,
  cell: Cell
): { slot: ISlot; start: number; end: number } {
  const source = cell.model.sharedModel.getSource();
  let [start, end] = [source.length, source.length];
  const editor = cell.editor;
  if (editor && panel.content.mode === 'edit' && panel.content.activeCell === cell) {
    const selection = editor.getSelection();
    start = editor.getOffsetAt(selection.start);
    end = editor.getOffsetAt(selection.end);
  }
  const slot = splitAtRange(source, start, end);
  return { slot, start: slot.prefix.length, end: source.length - slot.suffix.length };
}

/** Put a request together from the open notebook. */
export function buildRequest(
  panel: NotebookPanel,
  cell: Cell,
  slot: ISlot,
  settings: IFillSettings,
  n: number
): IFillRequest {
  const widgets = panel.content.widgets;
  const chosen = selectCells(widgets.map(viewCell), widgets.indexOf(cell), slot);
  return {
    request_id: crypto.randomUUID(),
    notebook_path: panel.context.path,
    cells: chosen.cells,
    target_idx: chosen.targetIdx,
    ...chosen.slot,
    language: findLanguage(panel),
    n,
    provider: settings.provider,
    num_context_cells: settings.numContextCells,
    num_following_cells: settings.numFollowingCells
  };
}

/**
 * Replace a range of a cell's source, as one step of its undo history.
 *
 * Nothing but the source changes, and nothing is run.
 */
export function replaceRange(cell: Cell, start: number, end: number, text: string): void {
  separateUndoStep(cell);
  cell.model.sharedModel.updateSource(start, end, text);
  separateUndoStep(cell);
  const editor = cell.editor;
  const position = editor?.getPositionAt(start + text.length);
  if (editor && position) {
    editor.setCursorPosition(position);
  }
}

/** Keep what comes next apart, in the undo history, from what was typed just before. */
export function separateUndoStep(cell: Cell): void {
  const shared = cell.model.sharedModel as { undoManager?: { stopCapturing(): void } | null };
  shared.undoManager?.stopCapturing();
}
