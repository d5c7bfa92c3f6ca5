import { Cell } from '@jupyterlab/cells';
import { sha256 } from '@noble/hashes/sha2';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils';

import { AcceptedPart, ICandidate } from './list';
import { IProvenance } from './tokens';

/** The key of a cell's metadata that holds its fills. */
const KEY = 'jupyt5';

/** What was accepted: which part of which candidate, and by which way. */
export interface IAcceptance {
  via: 'panel' | 'fill all' | 'ghost text';
  accepted: AcceptedPart;
  /** What went into the cell: a part of the candidate, or all of it. */
  text: string;
  candidate: ICandidate;
  /** From the reply's last line; null where that had not come yet. */
  provenance: IProvenance | null;
}

/** What is written down about an accepted text; `sha256` is that of the text in UTF-8. */
export interface IFillRecord extends Partial<IProvenance> {
  via: IAcceptance['via'];
  accepted: AcceptedPart;
  accepted_at: string;
  hypothesis_idx: number;
  mean_logprob: number | null;
  verdict: string | null;
  flags: string[];
  sha256: string;
}

/** Describe an accepted text; the time is now. */
export function describeFill(acceptance: IAcceptance): IFillRecord {
  const { via, accepted, text, candidate, provenance } = acceptance;
  return {
    ...provenance,
    via,
    accepted,
    accepted_at: new Date().toISOString(),
    hypothesis_idx: candidate.idx,
    mean_logprob: candidate.meanLogprob,
    verdict: candidate.verdict?.verdict ?? null,
    flags: candidate.verdict?.flags ?? [],
    // The browser's own digest is asynchronous, and missing on pages that came by plain HTTP.
    sha256: bytesToHex(sha256(utf8ToBytes(text)))
  };
}

/**
 * Add a record to the cell's metadata: `jupyt5.fills`, oldest first.
 *
 * By itself this is no step of the undo history.
 */
export function recordFill(cell: Cell, record: IFillRecord): void {
  const shared = cell.model.sharedModel;
  const value: unknown = shared.getMetadata(KEY);
  const old = typeof value === 'object' && value !== null ? (value as { fills?: unknown }) : {};
  const fills: unknown[] = Array.isArray(old.fills) ? old.fills : [];
  const metadata = { ...old, fills: [...fills, record] };
  shared.setMetadata(KEY, metadata as unknown as Parameters<typeof shared.setMetadata>[1]);
}
