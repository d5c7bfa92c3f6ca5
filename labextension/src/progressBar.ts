import { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

const CLASS = 'jp-jupyt5-progress';

/** A bar above a notebook: how far a long job is, and a button that stops it. */
export class ProgressBar {
  constructor(panel: NotebookPanel, onStop: () => void) {
    const stop = document.createElement('button');
    stop.type = 'button';
    stop.textContent = 'Stop';
    stop.addEventListener('click', onStop);
    stop.setAttribute('aria-label', 'Stop filling solution cells');
    this._text.setAttribute('role', 'status');
    this._bar.setAttribute('aria-label', 'Solution cells filled');
    this._widget.addClass(CLASS);
    this._widget.node.append(this._text, this._bar, stop);
    panel.contentHeader.addWidget(this._widget);
  }

  show(text: string, part: number): void {
    this._text.textContent = text;
    this._bar.value = part;
  }

  dispose(): void {
    this._widget.dispose();
  }

  private readonly _text = document.createElement('span');
  private readonly _bar = document.createElement('progress');
  private readonly _widget = new Widget();
}
