/** What changed from one text to another: by lines, and by words within the lines that changed. */
import { diffLines, diffWordsWithSpace } from 'diff';

export interface Word {
  text: string;
  change: 'same' | 'added' | 'removed';
}

/** A run of lines: the same in both texts, or changed, word by word. */
export interface Hunk {
  isSame: boolean;
  words: Word[];
}

const LINES_MS = 3_000;
const WORDS_MS = 40;
const MOST_EDITS = 2_000;

/**
 * Return the hunks of a difference. The page stays usable meanwhile. Lines that have too little in
 * common to be compared by words in time are shown as removed and added.
 */
export async function difference(before: string, after: string, signal: AbortSignal): Promise<Hunk[]> {
  const hunks: Hunk[] = [];
  let removed = '';
  let added = '';
  const close = async () => {
    if (removed || added) hunks.push({ isSame: false, words: wordsOf(removed, added) });
    removed = added = '';
    await turn();
  };
  for (const part of await linesOf(before, after)) {
    if (signal.aborted) return [];
    if (part.removed) removed += part.value;
    else if (part.added) added += part.value;
    else {
      await close();
      hunks.push({ isSame: true, words: [{ text: part.value, change: 'same' }] });
    }
  }
  await close();
  return hunks;
}

interface Lines {
  value: string;
  added: boolean;
  removed: boolean;
}

const linesOf = (before: string, after: string): Promise<Lines[]> =>
  new Promise((done) => {
    const whole = [
      { value: before, removed: true, added: false },
      { value: after, removed: false, added: true },
    ];
    diffLines(before, after, { timeout: LINES_MS, callback: (found) => done(found ?? whole) });
  });

function wordsOf(before: string, after: string): Word[] {
  const found = before && after ? diffWordsWithSpace(before, after, { timeout: WORDS_MS, maxEditLength: MOST_EDITS }) : undefined;
  const parts = found ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  const changeOf = (it: Lines): Word['change'] => (it.added ? 'added' : it.removed ? 'removed' : 'same');
  return parts.filter((it) => it.value).map((it) => ({ text: it.value, change: changeOf(it) }));
}

const turn = (): Promise<void> => new Promise((done) => setTimeout(done));

/** Return the place in a string (UTF-16) of each place counted in characters (code points). */
export function offsetsOf(text: string, places: number[]): Map<number, number> {
  const found = new Map<number, number>();
  const wanted = [...new Set(places)].sort((one, other) => one - other);
  let offset = 0;
  let count = 0;
  for (const place of wanted) {
    while (count < place && offset < text.length) {
      offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1;
      count += 1;
    }
    found.set(place, offset);
  }
  return found;
}
