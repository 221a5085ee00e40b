/** What a reviewer has typed and not sent: this tab of the browser keeps it until it is sent. */
import { useState } from 'preact/hooks';

/** A remark about a passage of the draft, at its place in UTF-16 units. */
export interface Remark {
  start: number;
  end: number;
  quote: string;
  text: string;
}

export interface Words {
  feedback: string;
  remarks: Remark[];
  /** A remark that is being written. */
  passage: { quote: string; start?: number };
  remark: string;
  /** Whether only the marked passages may change. */
  isLimited: boolean;
  score: string;
  /** The draft as the reviewer has edited it. */
  draft?: string | undefined;
  /** The arguments of a call, as the reviewer has edited them. */
  arguments?: string | undefined;
  /** What was decided, if it could not be sent. */
  tried?: string | undefined;
}

export const NOTHING: Words = { feedback: '', remarks: [], passage: { quote: '' }, remark: '', isLimited: true, score: '' };

/** By the key of the review. */
export type Kept = Record<string, Words>;

export type Change = Words | undefined | ((before?: Words) => Words | undefined);

export function useKept(id: string, owner: string | null): [Kept, (key: string, change?: Change) => void] {
  const place = `hone.review/${id} ${owner ?? ''}`;
  const [kept, setKept] = useState<Kept>(() => read(place));
  const keep = (key: string, change?: Change) =>
    setKept((it) => {
      const { [key]: former, ...others } = it;
      const words = typeof change === 'function' ? change(former) : change;
      const next = words ? { ...others, [key]: words } : others;
      write(place, next);
      return next;
    });
  return [kept, keep];
}

function read(place: string): Kept {
  try {
    return JSON.parse(sessionStorage.getItem(place) ?? '{}') as Kept;
  } catch {
    return {};
  }
}

function write(place: string, kept: Kept): void {
  try {
    if (Object.keys(kept).length) sessionStorage.setItem(place, JSON.stringify(kept));
    else sessionStorage.removeItem(place);
  } catch {
    // the browser keeps a few megabytes at most
  }
}

/** Return everything that was typed as one text, to be copied. */
export function textOf(words: Words): string {
  const unfinished = words.remark ? `${words.passage.quote ? `About “${words.passage.quote}”: ` : ''}${words.remark}` : '';
  const score = words.score ? `Score: ${words.score}` : '';
  return [feedbackOf(words), unfinished, score, words.draft, words.arguments].filter(Boolean).join('\n\n');
}

const MOST_QUOTED = 300;

/** Return the remarks and what is said of the whole, as the feedback of one review. */
export function feedbackOf(words: Words): string {
  const quoted = (it: string) => (it.length > MOST_QUOTED ? `${it.slice(0, MOST_QUOTED / 2)} … ${it.slice(-MOST_QUOTED / 2)}` : it);
  const remarks = words.remarks.filter((it) => it.text).map((it) => `About “${quoted(it.quote)}”: ${it.text}`);
  return [...remarks, words.feedback.trim()].filter(Boolean).join('\n');
}
