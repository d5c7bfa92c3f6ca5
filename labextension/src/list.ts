import { FillLine, IProvenance, IVerdict } from './tokens';

/** How much of a candidate is accepted at once. */
export type AcceptedPart = 'whole' | 'line' | 'word';

/** One hypothesis as it is offered; `text` is what is left of it after parts were accepted. */
export interface ICandidate {
  idx: number;
  text: string;
  meanLogprob: number | null;
  verdict: IVerdict | null;
  isFinished: boolean;
}

/** The candidates of one fill: which there are, which is shown, what of them has been accepted. */
export class CandidateList {
  /** The candidates worth showing: not blank, each text once, in agreement with what was accepted. */
  get candidates(): ICandidate[] {
    const shown: ICandidate[] = [];
    for (const candidate of this._order()) {
      const text = this._rest(candidate);
      if (text !== null && !shown.some(other => isCovered(text, candidate, other))) {
        shown.push({ ...candidate, text });
      }
    }
    return shown;
  }

  /** The candidate that is shown, or null. */
  get current(): ICandidate | null {
    const candidates = this.candidates;
    return candidates.find(each => each.idx === this._currentIdx) ?? candidates[0] ?? null;
  }

  /** Where the shown candidate stands among the others, counted from 0. */
  get position(): number {
    const current = this.current;
    return current ? this.candidates.findIndex(each => each.idx === current.idx) : 0;
  }

  /** Take in a line of the reply. */
  add(line: FillLine): void {
    if (line.type === 'delta' || line.type === 'candidate') {
      const candidate = this._find(line.hypothesis_idx);
      candidate.text = line.text;
      if (line.type === 'candidate') {
        candidate.isFinished = true;
        candidate.meanLogprob = line.mean_logprob;
      }
    } else if (line.type === 'verdict') {
      const { verdict, flags, message } = line;
      this._find(line.hypothesis_idx).verdict = { verdict, flags, message: message ?? '' };
    } else if (line.type === 'done') {
      this._ranking = line.order ?? null;
      this._provenance = line.provenance ?? null;
    }
  }

  /** What made the candidates; null until the reply has come to its end. */
  get provenance(): IProvenance | null {
    return this._provenance;
  }

  /** Stay with the shown candidate, whatever order the others get. */
  pin(): void {
    this._currentIdx = this.current?.idx ?? null;
  }

  /**
   * Put the best first, now that all is known, and drop what will not be finished any more; a
   * reader who has looked around stays put.
   */
  settle(): void {
    for (const { idx, isFinished } of [...this._all.values()]) {
      if (!isFinished) {
        this._all.delete(idx);
      }
    }
    this._isSettled = true;
  }

  /** Show another candidate; wraps around. */
  step(by: number): void {
    const candidates = this.candidates;
    if (candidates.length) {
      const position = (this.position + by + candidates.length) % candidates.length;
      this._currentIdx = candidates[position]?.idx ?? null;
    }
  }

  /** Note that the beginning of the shown candidate was accepted; others that differ are dropped. */
  take(part: string): void {
    this.pin();
    this._taken += part;
  }

  private _find(idx: number): ICandidate {
    let candidate = this._all.get(idx);
    if (!candidate) {
      candidate = { idx, text: '', meanLogprob: null, verdict: null, isFinished: false };
      this._all.set(idx, candidate);
    }
    return candidate;
  }

  private _order(): ICandidate[] {
    const all = [...this._all.values()];
    if (!this._isSettled) {
      return all;
    }
    const ranking = this._ranking;
    return all.sort(ranking ? (a, b) => place(ranking, a) - place(ranking, b) : compareCandidates);
  }

  private _rest(candidate: ICandidate): string | null {
    const rest = candidate.text.startsWith(this._taken)
      ? candidate.text.slice(this._taken.length)
      : '';
    return rest.trim() === '' ? null : rest;
  }

  private readonly _all = new Map<number, ICandidate>();
  private _currentIdx: number | null = null;
  private _isSettled = false;
  private _taken = '';
  private _ranking: readonly number[] | null = null;
  private _provenance: IProvenance | null = null;
}

/** Where the server has put a candidate; those that it does not name come last. */
function place(ranking: readonly number[], candidate: ICandidate): number {
  const position = ranking.indexOf(candidate.idx);
  return position < 0 ? ranking.length + candidate.idx : position;
}

/**
 * The order where the server gives none: candidates that passed, then doubtful passes, then the
 * likelier ones, then as they came.
 */
export function compareCandidates(a: ICandidate, b: ICandidate): number {
  const passes = standing(b) - standing(a);
  const likelier = (b.meanLogprob ?? -Infinity) - (a.meanLogprob ?? -Infinity);
  return passes || likelier || a.idx - b.idx;
}

/** Whether a candidate passed the next cell without a flag that makes the pass doubtful. */
export function isPassed(candidate: ICandidate): boolean {
  return candidate.verdict?.verdict === 'passed' && candidate.verdict.flags.length === 0;
}

function standing(candidate: ICandidate): number {
  return Number(candidate.verdict?.verdict === 'passed') + Number(isPassed(candidate));
}

/** What of a text is accepted, by how much of it is wanted. */
export const PARTS: Record<AcceptedPart, (text: string) => string> = {
  whole: text => text,
  line: firstLine,
  word: firstWord
};

/** The first line of a text, with the line end before it if it begins with one. */
export function firstLine(text: string): string {
  return /^\n*[^\n]*/.exec(text)?.[0] ?? text;
}

/** The first word or run of signs of a text, with the white space before it. */
export function firstWord(text: string): string {
  return /^\s*(?:[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]+)/u.exec(text)?.[0] ?? text;
}

/** Whether a text is no news: that of a shown candidate, or on its way to become it. */
function isCovered(text: string, candidate: ICandidate, other: ICandidate): boolean {
  return other.text === text || (!candidate.isFinished && other.text.startsWith(text));
}
