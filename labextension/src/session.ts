import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { readText } from './candidates';
import { describeVerdict } from './badge';
import { IConsent, IConsentDesk } from './consent';
import { findGrading } from './context';
import { AcceptedPart, CandidateList, PARTS } from './list';
import { buildRequest, findSlot, replaceRange, viewCell } from './notebook';
import { CandidatePanel, IPanelView } from './panel';
import { describeFill } from './provenance';
import { describeContext, describeRequest } from './sent';
import {
  CellKind,
  ContextService,
  FillLine,
  FillService,
  IFillRequest,
  IFillSettings,
  ISlot
} from './tokens';

/** What a session asks of the rest of the extension. */
export interface ISessionHost {
  service: FillService;
  consents: IConsentDesk;
  context: ContextService;
  settings: () => IFillSettings;
  /** Why nothing may be filled on this server; or null. */
  offReason: () => string | null;
  makePanel(cell: Cell): CandidatePanel;
}

const PROGRESS: Record<string, string> = {
  loading: 'Loading the model…',
  generating: 'Filling this cell…',
  trying: 'Trying candidates against the next cell…'
};

/** A key that comes sooner after another candidate has moved in was meant for the one before. */
const GUARD_MS = 300;

/** One cell being filled, from the command until a candidate is accepted or all are rejected. */
export class FillSession {
  /**
   * @param controller Aborted when the session is over, by whomever.
   */
  constructor(
    readonly notebook: NotebookPanel,
    readonly cell: Cell,
    private readonly _host: ISessionHost,
    private readonly _controller: AbortController
  ) {
    this._mode = notebook.content.mode;
    const { start, end } = findSlot(notebook, cell);
    [this._start, this._end] = [start, end];
    this._panel = _host.makePanel(cell);
    this._panel.node.addEventListener('focusin', () => {
      this._list.pin();
    });
    this._signal.addEventListener('abort', () => {
      this._dispose();
    });
  }

  /** Whether the session itself is changing the cell's source just now. */
  isEditing = false;

  /**
   * Ask for candidates, and show them as they come; resolves when all are there.
   *
   * @param seed Other seeds bring other candidates.
   */
  async run(seed = 0): Promise<void> {
    this._stream?.abort();
    const stream = new AbortController();
    this._stream = stream;
    const list = (this._list = new CandidateList());
    this._seed = seed;
    this._tryNote = '';
    this._progress = PROGRESS.generating ?? '';
    this._show(this._progress, true);
    this._consent = this._canBeTried ? await this._host.consents.get(this._path) : null;
    if (this._isOver(stream)) {
      return;
    }
    this._request = this._buildRequest(seed);
    for await (const line of this._host.service(this._request, stream.signal)) {
      if (this._isOver(stream)) {
        return;
      }
      readText(line); // throws what the server says went wrong
      list.add(line);
      this._show(this._describeProgress(line), true);
    }
    if (!this._isOver(stream)) {
      this._settle(list);
      this._isWorking = false;
      this._show(this._summarise(), false);
    }
  }

  /** Ask again: the same request with another seed. */
  again(): Promise<void> {
    return this.run(this._seed + 1);
  }

  /** Show the next (1) or the previous (-1) candidate. */
  step(by: number): void {
    this._list.step(by);
    this._movedAt = -Infinity;
    this._show(this._summarise(), this._isWorking);
  }

  /**
   * Put a part of the shown candidate into the cell; the session goes on with the rest.
   *
   * Nothing happens while the candidate is being made, or has just taken another one's place.
   */
  accept(how: AcceptedPart): void {
    const candidate = this._list.current;
    if (!candidate?.isFinished || performance.now() - this._movedAt < GUARD_MS) {
      return;
    }
    const part = PARTS[how](candidate.text);
    const provenance = this._list.provenance;
    const record = this._host.settings().recordProvenance
      ? describeFill({ via: 'panel', accepted: how, text: part, candidate, provenance })
      : null;
    this.isEditing = true;
    try {
      replaceRange(this.cell, this._start, this._end, part, record);
    } finally {
      this.isEditing = false;
    }
    this._start += part.length;
    this._end = this._start;
    this._list.take(part);
    if (part === candidate.text || this._list.current === null) {
      this._controller.abort();
    } else {
      this._show(this._summarise(), this._isWorking);
    }
  }

  /** Allow or forbid trying candidates in this notebook; once allowed, the same are tried. */
  async toggleTry(): Promise<void> {
    if (this._consent?.available) {
      this._consent = await this._host.consents.set(this._path, !this._consent.allowed);
      await this.run(this._seed);
    }
  }

  /** Move the keyboard's focus to the candidate. */
  focus(): void {
    this._list.pin();
    this._panel.focus();
  }

  /** Show what was sent to the server, or hide it again. */
  async toggleSent(): Promise<void> {
    const request = this._request;
    if (!this._panel.toggleSent() || !request) {
      return;
    }
    const sent = describeRequest(request);
    this._panel.showSent(sent);
    const reaches = await this._host.context(request).then(describeContext, String);
    this._panel.showSent(`${sent}\n\n${reaches}`);
  }

  private get _signal(): AbortSignal {
    return this._controller.signal;
  }

  private get _path(): string {
    return this.notebook.context.path;
  }

  /** Whether there is a cell below that could judge candidates. */
  private get _canBeTried(): boolean {
    const widgets = this.notebook.content.widgets;
    return findGrading(widgets.map(viewCell), widgets.indexOf(this.cell)) !== null;
  }

  private _isOver(stream: AbortController): boolean {
    return stream.signal.aborted || this._signal.aborted;
  }

  /** Put the best first, unless the reader's focus is on the one that is shown. */
  private _settle(list: CandidateList): void {
    if (this._panel.hasFocus) {
      list.pin();
    }
    const shown = list.current?.text;
    list.settle();
    if (shown !== undefined && list.current?.text !== shown) {
      this._movedAt = performance.now();
    }
  }

  private _describeProgress(line: FillLine): string {
    if (line.type === 'status' && line.state === 'not_tried') {
      this._tryNote = `not tried: ${line.reason}`;
    } else if (line.type === 'status') {
      if (line.state === 'trying' && line.reason) {
        this._tryNote = `tried in a fresh kernel: ${line.reason}`;
      }
      this._progress = PROGRESS[line.state] ?? PROGRESS.generating ?? '';
    }
    return this._progress;
  }

  private _buildRequest(seed: number): IFillRequest {
    const { prefix, suffix } = this._split();
    const { numCandidates } = this._host.settings();
    // A single candidate is the likeliest text, the same each time; others have to be drawn.
    const n = seed > 0 ? Math.max(2, numCandidates) : numCandidates;
    return buildRequest(this.notebook, this.cell, { prefix, suffix }, this._host.settings(), {
      n,
      seed: seed || undefined,
      isTried: this._consent?.allowed
    });
  }

  private _summarise(): string {
    const { candidates, current, position } = this._list;
    if (!current) {
      return this._isWorking ? 'Filling this cell…' : 'The model has no suggestion for this cell.';
    }
    const place = `Candidate ${position + 1} of ${candidates.length}`;
    const badge = current.verdict ? describeVerdict(current.verdict).text : '';
    return [candidates.length > 1 ? place : '', badge, this._tryNote].filter(Boolean).join(', ');
  }

  private _split(): ISlot & { source: string } {
    const source = this.cell.model.sharedModel.getSource();
    return { source, prefix: source.slice(0, this._start), suffix: source.slice(this._end) };
  }

  private _show(note: string, isWorking: boolean): void {
    this._isWorking = isWorking;
    const { prefix, suffix, source } = this._split();
    const candidate = this._list.current;
    const view: IPanelView = {
      candidate,
      position: this._list.position,
      count: this._list.candidates.length,
      before: source,
      after: prefix + (candidate?.text ?? '') + suffix,
      kind: this.cell.model.type as CellKind,
      isWorking,
      note,
      trying: this._consent?.available ? { isOn: this._consent.allowed } : null
    };
    this._panel.render(view);
  }

  private _dispose(): void {
    this._stream?.abort();
    const hadFocus = this._panel.hasFocus;
    this._panel.dispose();
    if (hadFocus && !this.notebook.isDisposed) {
      this.notebook.content.mode = this._mode;
      this.notebook.content.activate();
    }
  }

  private readonly _panel: CandidatePanel;
  private readonly _mode: 'command' | 'edit';
  private _list = new CandidateList();
  private _request: IFillRequest | null = null;
  private _stream: AbortController | null = null;
  private _consent: IConsent | null = null;
  private _tryNote = '';
  private _progress = '';
  private _seed = 0;
  private _isWorking = false;
  /** When another candidate took the place of the shown one without the reader's doing. */
  private _movedAt = -Infinity;
  private _start: number;
  private _end: number;
}
