import { IVerdict } from './tokens';

/** What the badge of a candidate says, and how it looks. */
export interface IBadge {
  text: string;
  title: string;
  tone: 'good' | 'bad' | 'doubtful';
}

const WORDS: Record<string, string> = {
  passed: 'passes the next cell',
  wrong: 'fails the next cell',
  error: 'raises an error',
  syntax: 'is not valid Python',
  timeout: 'takes too long',
  died: 'kills its process',
  exit: 'ends its process',
  oom: 'needs too much memory',
  limit: 'exceeds a limit',
  context: 'not judged: an earlier cell fails',
  invalid: 'not judged: the next cell does not decide'
};

/** Put a verdict into words; the words are those of the benchmark, so the badge explains them. */
export function describeVerdict(verdict: IVerdict): IBadge {
  const words = WORDS[verdict.verdict] ?? verdict.verdict;
  const title = [verdict.message, ...verdict.flags].filter(Boolean).join('\n');
  if (verdict.verdict === 'passed') {
    const isSure = verdict.flags.length === 0;
    return { text: `${isSure ? '✓' : '?'} ${words}`, title, tone: isSure ? 'good' : 'doubtful' };
  }
  const isJudged = verdict.verdict !== 'context' && verdict.verdict !== 'invalid';
  return { text: `${isJudged ? '✗' : '–'} ${words}`, title, tone: isJudged ? 'bad' : 'doubtful' };
}

/** The model's mean probability of a token, e.g. `0.84`, or nothing if it does not say. */
export function describeScore(meanLogprob: number | null): string {
  return meanLogprob === null ? '' : Math.exp(meanLogprob).toFixed(2);
}
