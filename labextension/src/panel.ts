import { Cell } from '@jupyterlab/cells';

import { describeScore, describeVerdict } from './badge';
import { diffLines, IDiffLine } from './diffs';
import { Highlighter } from './highlight';
import { ICandidate } from './list';
import { CellKind, CommandIDs } from './tokens';

const PANEL = 'jp-jupyt5-panel';

/** What the panel shows. */
export interface IPanelView {
  candidate: ICandidate | null;
  position: number;
  count: number;
  /** The cell's source as it is, and as it would be. */
  before: string;
  after: string;
  kind: CellKind;
  isWorking: boolean;
  note: string;
  /** Whether candidates are tried; null where that is not possible. */
  trying: { isOn: boolean } | null;
}

/** What the panel needs of the application: run a command, and know its key. */
export interface IPanelHost {
  execute(command: string): void;
  /** Run the command that a key event stands for, if it is one of the panel's. */
  runKey(event: KeyboardEvent): boolean;
  keyOf(command: string): string;
}

// Keys that work while the candidate itself has the focus.
const PLAIN_KEYS: Record<string, string> = {
  Enter: CommandIDs.accept,
  l: CommandIDs.acceptLine,
  w: CommandIDs.acceptWord,
  r: CommandIDs.again,
  ArrowRight: CommandIDs.next,
  ArrowLeft: CommandIDs.previous
};

/** The panel under a cell: shows candidates; the document stays as it is. */
export class CandidatePanel {
  constructor(
    cell: Cell,
    private readonly _highlighter: Highlighter,
    private readonly _host: IPanelHost
  ) {
    this.node.className = PANEL;
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'JuPyT5 candidates for this cell');
    this.node.addEventListener('keydown', this._onKeydown);
    this._code.setAttribute('role', 'region');
    this._note.setAttribute('role', 'status');
    this._sent.hidden = true;
    this._sent.setAttribute('role', 'region');
    this._sent.setAttribute('aria-label', 'What is sent');
    this._buildBar();
    for (const element of [this._code, this._sent, this._tryBox, ...this._buttons.values()]) {
      element.tabIndex = 0;
      // The notebook's one-letter shortcuts must not act on a focus in here.
      element.dataset.lmSuppressShortcuts = 'true';
    }
    this.node.append(this._code, this._bar, this._note, this._sent);
    cell.node.querySelector('.jp-Cell-inputWrapper')?.after(this.node);
  }

  readonly node = document.createElement('section');

  /** Whether the keyboard's focus is in the panel. */
  get hasFocus(): boolean {
    return this.node.contains(document.activeElement);
  }

  focus(): void {
    this._code.focus();
  }

  /** Show what there is now. */
  render(view: IPanelView): void {
    const { candidate, isWorking, position, count } = view;
    const canAccept = candidate?.isFinished ?? false;
    for (const command of [CommandIDs.accept, CommandIDs.acceptLine, CommandIDs.acceptWord]) {
      this._setEnabled(command, canAccept);
    }
    this._setEnabled(CommandIDs.next, count > 1);
    this._setEnabled(CommandIDs.previous, count > 1);
    this.node.setAttribute('aria-busy', String(isWorking));
    this._counter.textContent = candidate ? `${position + 1}/${count}` : '';
    this._code.setAttribute('aria-label', `Candidate ${position + 1} of ${count}`);
    this._renderBadge(candidate);
    this._trying.hidden = view.trying === null;
    this._tryBox.checked = view.trying?.isOn ?? false;
    if (this._note.textContent !== view.note) {
      this._note.textContent = view.note; // read aloud, so only when it is new
    }
    void this._renderCode(view);
  }

  /** Open or close the place for what was sent; tells whether it is open. */
  toggleSent(): boolean {
    const isOpen = this._sent.hidden;
    this._sent.hidden = !isOpen;
    this._buttons.get(CommandIDs.showSent)?.setAttribute('aria-expanded', String(isOpen));
    return isOpen;
  }

  showSent(text: string): void {
    this._sent.textContent = text;
  }

  dispose(): void {
    this.node.remove();
  }

  private _buildBar(): void {
    this._bar.className = `${PANEL}-bar`;
    this._bar.setAttribute('role', 'toolbar');
    this._bar.setAttribute('aria-label', 'Candidate');
    this._counter.className = `${PANEL}-counter`;
    this._badge.className = `${PANEL}-badge`;
    this._score.className = `${PANEL}-score`;
    this._score.setAttribute('role', 'img'); // a bare number says nothing when read aloud
    this._code.className = `${PANEL}-code`;
    this._note.className = `${PANEL}-note`;
    this._sent.className = `${PANEL}-sent`;
    this._bar.append(
      this._addButton(CommandIDs.previous, '‹', 'Previous candidate'),
      this._counter,
      this._addButton(CommandIDs.next, '›', 'Next candidate'),
      this._addButton(CommandIDs.accept, 'Accept', 'Accept this candidate'),
      this._addButton(CommandIDs.acceptLine, 'Line', 'Accept the first line'),
      this._addButton(CommandIDs.acceptWord, 'Word', 'Accept the first word'),
      this._addButton(CommandIDs.again, 'Try again', 'Ask for other candidates'),
      this._addButton(CommandIDs.cancel, 'Reject', 'Reject; the cell stays as it is'),
      this._badge,
      this._score,
      this._buildTryBox(),
      this._addButton(CommandIDs.showSent, 'What is sent?', 'What is sent?')
    );
    this._buttons.get(CommandIDs.showSent)?.setAttribute('aria-expanded', 'false');
  }

  private _buildTryBox(): HTMLElement {
    const key = this._host.keyOf(CommandIDs.toggleTry);
    this._tryBox.type = 'checkbox';
    this._tryBox.addEventListener('change', () => {
      this._host.execute(CommandIDs.toggleTry);
    });
    this._trying.title =
      'Run each candidate and the next cell in a sandboxed copy of your kernel before you ' +
      `decide; your kernel and files stay as they are. Kept for this notebook. (${key})`;
    this._trying.append(this._tryBox, ' Try against the next cell');
    return this._trying;
  }

  private _addButton(command: string, text: string, label: string): HTMLButtonElement {
    const button = document.createElement('button');
    const key = this._host.keyOf(command);
    button.type = 'button';
    button.textContent = text;
    button.title = key ? `${label} (${key})` : label;
    button.setAttribute('aria-label', button.title);
    button.dataset.command = command;
    button.addEventListener('mousedown', event => {
      event.preventDefault(); // the editor keeps the focus
    });
    button.addEventListener('click', () => {
      this._host.execute(command);
    });
    this._buttons.set(command, button);
    return button;
  }

  private _setEnabled(command: string, isEnabled: boolean): void {
    const button = this._buttons.get(command);
    if (button) {
      // Not `disabled`: that would throw the focus out of the panel.
      button.setAttribute('aria-disabled', String(!isEnabled));
    }
  }

  private _renderBadge(candidate: ICandidate | null): void {
    const badge = candidate?.verdict ? describeVerdict(candidate.verdict) : null;
    this._badge.textContent = badge?.text ?? '';
    this._badge.title = badge?.title ?? '';
    this._badge.dataset.tone = badge?.tone ?? '';
    this._score.textContent = describeScore(candidate?.meanLogprob ?? null);
    this._score.title = "The model's mean probability of a token";
    this._score.setAttribute('aria-label', `Score ${this._score.textContent}`);
    this._badge.hidden = !badge;
    this._score.hidden = !this._score.textContent;
  }

  private async _renderCode({ candidate, before, after, kind }: IPanelView): Promise<void> {
    const render = ++this._numRenders;
    const [oldLines, newLines] = await Promise.all(
      [before, after].map(text => this._highlighter.lines(text, kind))
    );
    if (render !== this._numRenders) {
      return; // a newer one is under way
    }
    const lines = candidate ? diffLines(before, after) : [];
    this._code.hidden = !candidate;
    this._code.classList.toggle(`${PANEL}-mod-diff`, before !== '');
    this._code.replaceChildren(
      ...lines.map(line => {
        const coloured = (line.kind === 'removed' ? oldLines : newLines)?.[line.lineIdx];
        return makeRow(line, coloured);
      })
    );
  }

  private readonly _onKeydown = (event: KeyboardEvent): void => {
    const hasModifier = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
    const isOnCode = event.target === this._code && !hasModifier;
    const command = isOnCode ? PLAIN_KEYS[event.key] : undefined;
    if (command) {
      this._host.execute(command);
    } else if (!this._host.runKey(event)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  private readonly _code = document.createElement('pre');
  private readonly _bar = document.createElement('div');
  private readonly _counter = document.createElement('span');
  private readonly _badge = document.createElement('span');
  private readonly _score = document.createElement('span');
  private readonly _trying = document.createElement('label');
  private readonly _tryBox = document.createElement('input');
  private readonly _note = document.createElement('div');
  private readonly _sent = document.createElement('pre');
  private readonly _buttons = new Map<string, HTMLButtonElement>();
  private _numRenders = 0;
}

const SIGNS = { same: ' ', added: '+', removed: '−', gap: ' ' };
/** Screen readers tell insertions and deletions by the element. */
const TAGS = { same: 'div', added: 'ins', removed: 'del', gap: 'div' };

function makeRow(line: IDiffLine, coloured: DocumentFragment | undefined): HTMLElement {
  const row = document.createElement(TAGS[line.kind]);
  row.className = `${PANEL}-line`;
  row.dataset.kind = line.kind;
  row.dataset.sign = SIGNS[line.kind];
  row.append(line.kind === 'gap' || !coloured ? line.text : coloured.cloneNode(true));
  return row;
}
