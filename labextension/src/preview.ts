import { Cell } from '@jupyterlab/cells';

const PREVIEW_CLASS = 'jp-jupyt5-preview';
const NOTE_CLASS = 'jp-jupyt5-preview-note';

/** Shows, under a cell's editor, the text that is being made; the document stays as it is. */
export class Preview {
  constructor(cell: Cell) {
    this._node.className = PREVIEW_CLASS;
    this._node.setAttribute('role', 'status');
    cell.node.querySelector('.jp-Cell-inputWrapper')?.after(this._node);
  }

  /** Show a note on what is happening, instead of text. */
  setNote(note: string): void {
    this._node.classList.add(NOTE_CLASS);
    this._node.textContent = note;
  }

  setText(text: string): void {
    this._node.classList.remove(NOTE_CLASS);
    this._node.textContent = text;
  }

  dispose(): void {
    this._node.remove();
  }

  private readonly _node = document.createElement('pre');
}
