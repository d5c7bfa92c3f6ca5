/** What the parts of the extension, and the server, say to each other. */

export type CellKind = 'code' | 'markdown' | 'raw';

/** A cell as the server sees it: no outputs, no attachments. */
export interface ICellView {
  id: string;
  kind: CellKind;
  source: string;
}

/** Where in the target the new text goes: what stands before it and after it. */
export interface ISlot {
  prefix: string;
  suffix: string;
}

/** The body of `POST jupyt5/api/fill`. */
export interface IFillRequest extends ISlot {
  request_id: string;
  notebook_path: string;
  cells: ICellView[];
  target_idx: number;
  language: string;
  n: number;
  seed?: number;
  kernel_id?: string;
  /** Whether names and types of the kernel's variables go along. */
  kernel_facts?: boolean;
  /** The index, among `cells`, of the cell that decides. */
  try?: { grading_idx: number };
  provider?: string;
  num_context_cells?: number;
  num_following_cells?: number;
  /** Whether the last line of the reply says what made it; that costs a hash of the weights. */
  provenance?: true;
}

/** One line of the reply. `text` is always the whole text so far. */
export type FillLine =
  | { type: 'status'; request_id: string; state: string; reason: string }
  | { type: 'delta'; request_id: string; hypothesis_idx: number; text: string }
  | {
      type: 'candidate';
      request_id: string;
      hypothesis_idx: number;
      text: string;
      mean_logprob: number | null;
    }
  | {
      type: 'verdict';
      request_id: string;
      hypothesis_idx: number;
      verdict: string;
      flags: string[];
      wall_s: number;
      message?: string;
    }
  | { type: 'done'; request_id: string; order?: number[]; provenance?: IProvenance }
  | { type: 'error'; request_id: string | null; code: string; message: string };

/** What made the candidates of a reply: provider, versions, sampling. Written down as it comes. */
export interface IProvenance {
  provider: string;
  [field: string]: unknown;
}

/** The reply to `GET jupyt5/api/status`, as far as the page needs it. */
export interface IStatusReply {
  enabled: boolean;
  provider: string;
  state: 'idle' | 'loading' | 'ready' | 'busy' | 'offline';
  reason: string;
}

/** Asks the server where the assistant stands; without a provider, the server's default. */
export type StatusService = (provider: string | undefined) => Promise<IStatusReply>;

/** How a candidate did against the cell below; the words are those of the benchmark. */
export interface IVerdict {
  verdict: string;
  flags: string[];
  message: string;
}

/** The reader's settings; undefined means: what the server says. */
export interface IFillSettings {
  provider: string | undefined;
  numContextCells: number | undefined;
  numFollowingCells: number | undefined;
  kernelFacts: boolean;
  ghostText: boolean;
  numCandidates: number;
  numGhostCandidates: number;
  recordProvenance: boolean;
}

/** Sends a request and yields the lines of its reply; stops when the signal is aborted. */
export type FillService = (request: IFillRequest, signal: AbortSignal) => AsyncGenerator<FillLine>;

/** What of a request reaches the model, as `POST jupyt5/api/context` answers. */
export interface IContextReply {
  provider: string;
  text: string;
  num_tokens: number;
  facts: string | null;
  facts_reason: string;
}

/** Asks the server what of a request would reach the model. */
export type ContextService = (request: IFillRequest) => Promise<IContextReply>;

/** An error the reader should see; `code` is the server's, or `connection`. */
export class FillError extends Error {
  constructor(
    readonly code: string,
    message: string
  ) {
    super(message);
  }
}

export namespace CommandIDs {
  export const fillCell = 'jupyt5:fill-cell';
  export const cancel = 'jupyt5:cancel';
  export const accept = 'jupyt5:accept';
  export const acceptLine = 'jupyt5:accept-line';
  export const acceptWord = 'jupyt5:accept-word';
  export const next = 'jupyt5:next';
  export const previous = 'jupyt5:previous';
  export const again = 'jupyt5:again';
  export const focusPanel = 'jupyt5:focus-panel';
  export const showSent = 'jupyt5:show-sent';
  export const toggleTry = 'jupyt5:toggle-try';
  export const fillAll = 'jupyt5:fill-all';
  export const stopAll = 'jupyt5:stop-all';
  export const toggleNotebook = 'jupyt5:toggle-notebook';
}
