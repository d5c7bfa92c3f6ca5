import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';
import { UUID } from '@lumino/coreutils';

import { CellKind, ICellView, IFillRequest, IFillSettings, ISlot } from './tokens';
import { findGrading, findRefusal, selectCells } from './context';
import { isSwitchedOff, OFF_HERE } from './offSwitch';
import { splitAtRange } from './offsets';
import { IFillRecord, recordFill } from './provenance';

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

/** Why a cell of a notebook cannot be filled, or null if it can. */
export function refuse(panel: NotebookPanel, cell: Cell): string | null {
  if (isSwitchedOff(panel)) {
    return OFF_HERE;
  }
  return findRefusal(viewCell(cell), findLanguage(panel));
}

/** What is wanted: how many candidates, which draw of them, and whether they are tried. */
export interface IWish {
  n: number;
  seed?: number;
  isTried?: boolean;
}

/** Put a request together from the open notebook. */
export function buildRequest(
  panel: NotebookPanel,
  cell: Cell,
  slot: ISlot,
  settings: IFillSettings,
  wish: IWish
): IFillRequest {
  const widgets = panel.content.widgets;
  const chosen = selectCells(widgets.map(viewCell), widgets.indexOf(cell), slot);
  const gradingIdx = wish.isTried ? findGrading(chosen.cells, chosen.targetIdx) : null;
  const isKernelNeeded = settings.kernelFacts || gradingIdx !== null;
  return {
    request_id: UUID.uuid4(), // crypto.randomUUID is missing on pages that came by plain HTTP
    notebook_path: panel.context.path,
    cells: chosen.cells,
    target_idx: chosen.targetIdx,
    ...chosen.slot,
    language: findLanguage(panel),
    n: wish.n,
    seed: wish.seed,
    kernel_id: isKernelNeeded ? panel.sessionContext.session?.kernel?.id : undefined,
    kernel_facts: settings.kernelFacts || undefined,
    try: gradingIdx === null ? undefined : { grading_idx: gradingIdx },
    provider: settings.provider,
    num_context_cells: settings.numContextCells,
    num_following_cells: describesCode(cell) ? atLeastOne(settings) : settings.numFollowingCells,
    provenance: settings.recordProvenance || undefined
  };
}

/** Markdown is written about the code below it. */
function describesCode(cell: Cell): boolean {
  return cell.model.type === 'markdown';
}

function atLeastOne({ numFollowingCells }: IFillSettings): number | undefined {
  return numFollowingCells === undefined ? undefined : Math.max(1, numFollowingCells);
}

/**
 * Replace a range of a cell's source, as one step of its undo history.
 *
 * Nothing but the source changes, and nothing is run. With a record, that is written into the
 * cell's metadata in the same step: one undo takes back both.
 */
export function replaceRange(
  cell: Cell,
  start: number,
  end: number,
  text: string,
  record: IFillRecord | null = null
): void {
  const shared = cell.model.sharedModel;
  separateUndoStep(cell);
  if (record) {
    shared.transact(() => {
      shared.updateSource(start, end, text);
      recordFill(cell, record);
    });
  } else {
    shared.updateSource(start, end, text);
  }
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
