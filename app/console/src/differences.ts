/** What changed from one text to another: by lines, within those by sentences, and within those by words. */
import { diffArrays } from 'diff';

export interface Word {
  text: string;
  change: 'same' | 'added' | 'removed';
}

/** A run of lines: the same in both texts, or changed, word by word. */
export interface Hunk {
  isSame: boolean;
  words: Word[];
}

/** A run of the parts that a text was cut into: as it was, or what stood there before and stands there now. */
type Run = { same: string } | { removed: string; added: string };

const LINES = /[^\n]*\n|[^\n]+/g;
const SENTENCES = /[^.!?。！？؟۔।\n]*[.!?。！？؟۔।\n]+\s*|[^.!?。！？؟۔।\n]+/gu;
// Scripts that put no spaces between words are compared by character. A character goes with its marks, and with what joins it.
const UNSPACED = '\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}';
const WORDS = new RegExp(`\\s+|(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}_])+|.\\p{M}*(?:\\u200d.\\p{M}*)*`, 'gsu');
/** How texts are cut, coarsely first: only what a coarse comparison found to be changed is compared more finely. */
const LEVELS = [LINES, SENTENCES, WORDS];

const FEW = 400;
const MANY = 100_000;
const GRAM = 5;
const MOST_EDITS = 1_000;
const COMPARED_MS = 100;
const SLICE_MS = 16;
const ALL_MS = 3_000;

/**
 * Return the hunks of a difference. The page stays usable meanwhile. Texts that have too little in
 * common to be compared in three seconds are shown as removed and added, from there on.
 */
export async function difference(before: string, after: string, signal: AbortSignal): Promise<Hunk[]> {
  const began = performance.now();
  let slice = began;
  /** Let the page do other things now and then; false once there is no time for more. */
  const mayGoOn = async (): Promise<boolean> => {
    if (performance.now() - slice > SLICE_MS) {
      await new Promise((done) => setTimeout(done));
      slice = performance.now();
    }
    return !signal.aborted && slice - began < ALL_MS;
  };
  const compared = async (removed: string, added: string, cut: RegExp): Promise<Run[]> =>
    runsOf(await partsOf(removed, cut, mayGoOn), await partsOf(added, cut, mayGoOn), cut !== WORDS, mayGoOn);
  const wordsOf = async (run: Run, level: number): Promise<Word[]> => {
    if ('same' in run) return [{ text: run.same, change: 'same' }];
    const { removed, added } = run;
    const cut = LEVELS[level];
    if (!removed || !added || !cut || !(await mayGoOn()))
      return joined([
        { text: removed, change: 'removed' },
        { text: added, change: 'added' },
      ]);
    const words: Word[] = [];
    const runs = await compared(removed, added, cut);
    for (const it of cut === WORDS ? readable(runs) : runs) words.push(...(await wordsOf(it, level + 1)));
    return joined(words);
  };
  const hunks: Hunk[] = [];
  for (const it of await compared(before, after, LINES))
    hunks.push({ isSame: 'same' in it, words: await wordsOf(it, 1) });
  return signal.aborted ? [] : hunks;
}

async function partsOf(text: string, cut: RegExp, mayGoOn: () => Promise<boolean>): Promise<string[]> {
  const parts: string[] = [];
  for (const [part] of text.matchAll(cut)) {
    parts.push(part);
    if (parts.length % 1_000 === 0) await mayGoOn();
  }
  return parts;
}

/** Return neighbours with the same change as one, without empty ones. */
function joined(words: Word[]): Word[] {
  const found: Word[] = [];
  for (const it of words) {
    const last = found.at(-1);
    if (last?.change === it.change) last.text += it.text;
    else if (it.text) found.push({ ...it });
  }
  return found;
}

/** A word that is too short to stand between two changes. */
const SHORT_WORD = /^\s+\S{1,2}\s+$/u;

/**
 * Return runs of words as a person would mark them. A change is moved to the left over words that it ends with, where
 * it meets another one: "are of [the] opinion that the" begins with "are". Changes around one short word are one change.
 */
function readable(runs: Run[]): Run[] {
  const found: Run[] = [];
  for (const run of runs) {
    const [change, same] = [found.at(-2), found.at(-1)];
    if (same && 'same' in same && 'same' in run) {
      same.same += run.same;
      continue;
    }
    if (!change || !same || !('removed' in change) || !('same' in same) || !('removed' in run)) {
      found.push({ ...run });
      continue;
    }
    const moved = movedLeft(run, same.same);
    if (!moved && !SHORT_WORD.test(same.same)) {
      found.push({ ...run });
      continue;
    }
    const { removed, added } = moved ?? { removed: same.same + run.removed, added: same.same + run.added };
    change.removed += removed;
    change.added += added;
    found.pop();
    if (moved) found.push(same);
  }
  return found;
}

/** Return what a change after words that stayed is before them; null for one that does not end with these words. */
function movedLeft({ removed, added }: { removed: string; added: string }, same: string): { removed: string; added: string } | null {
  if (removed && added) return null;
  const text = removed || added;
  if (!text.endsWith(same)) return null;
  const moved = same + text.slice(0, -same.length);
  return { removed: removed && moved, added: added && moved };
}

/**
 * Compare lists of parts: at what stands once in both, if they are long, and in between as exactly as there is time for.
 * As many parts that have nothing in common may be paired, each with the one at its place.
 */
async function runsOf(before: string[], after: string[], isPaired: boolean, mayGoOn: () => Promise<boolean>): Promise<Run[]> {
  const runs: Run[] = [];
  const add = (same: string[], removed: string[], added: string[]) => {
    const last = runs.at(-1);
    const [kept, gone, come] = [same.join(''), removed.join(''), added.join('')];
    if (kept) {
      if (last && 'same' in last) last.same += kept;
      else runs.push({ same: kept });
    } else if (last && 'removed' in last) {
      last.removed += gone;
      last.added += come;
    } else if (gone || come) runs.push({ removed: gone, added: come });
  };
  const compare = async (old: string[], now: string[]): Promise<void> => {
    const head = shared(old, now, false);
    const tail = shared(old.slice(head), now.slice(head), true);
    add(old.slice(0, head), [], []);
    await between(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
    add(old.slice(old.length - tail), [], []);
  };
  const between = async (old: string[], now: string[]): Promise<void> => {
    if (!old.length || !now.length || !(await mayGoOn())) return add([], old, now);
    let anchors: [number, number][] = [];
    const count = old.length + now.length;
    if (count > FEW) anchors = anchorsOf(old, now);
    if (count > FEW && count < MANY && !anchors.length) anchors = anchorsOf(gramsOf(old), gramsOf(now));
    if (anchors.length) {
      let [from, to] = [0, 0];
      for (const [one, other] of [...anchors, [old.length, now.length] as const]) {
        await compare(old.slice(from, one), now.slice(to, other));
        if (one < old.length) add(old.slice(one, one + 1), [], []);
        [from, to] = [one + 1, other + 1];
      }
      return;
    }
    const found = diffArrays(old, now, { timeout: COMPARED_MS, maxEditLength: MOST_EDITS });
    if (!found && isPaired && old.length === now.length) {
      old.forEach((it, at) => runs.push({ removed: it, added: now[at] ?? '' }));
      return;
    }
    if (!found) return add([], old, now);
    for (const it of found) add(it.added || it.removed ? [] : it.value, it.removed ? it.value : [], it.added ? it.value : []);
  };
  await compare(before, after);
  return runs;
}

/** Return how many parts two lists share at one end. */
function shared(one: string[], other: string[], isEnd: boolean): number {
  const most = Math.min(one.length, other.length);
  let count = 0;
  while (count < most && (isEnd ? one.at(-1 - count) === other.at(-1 - count) : one[count] === other[count])) count++;
  return count;
}

/** Return at each place so many parts as one: a word alone seldom stands once in a long text. */
const gramsOf = (parts: string[]): string[] => parts.map((_, at) => parts.slice(at, at + GRAM).join('\0'));

/** Return where parts stand that both lists have once, in the same order: the longest such sequence (patience diff). */
function anchorsOf(one: string[], other: string[]): [number, number][] {
  const places = new Map<string, { at: number[]; there: number[] }>();
  one.forEach((it, at) => {
    const known = places.get(it);
    if (known) known.at.push(at);
    else places.set(it, { at: [at], there: [] });
  });
  other.forEach((it, at) => places.get(it)?.there.push(at));
  const pairs: { at: number; there: number; before?: number | undefined }[] = [];
  for (const { at, there } of places.values())
    if (at.length === 1 && there.length === 1) pairs.push({ at: at[0] as number, there: there[0] as number });
  const ends: number[] = []; // by length, the index of the pair with which a sequence of this length ends earliest
  pairs.forEach((pair, index) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((pairs[ends[middle] as number]?.there ?? 0) < pair.there) low = middle + 1;
      else high = middle;
    }
    pair.before = ends[low - 1];
    ends[low] = index;
  });
  const found: [number, number][] = [];
  for (let at = ends.at(-1); at !== undefined; at = pairs[at]?.before) {
    const pair = pairs[at];
    if (pair) found.push([pair.at, pair.there]);
  }
  return found.reverse();
}

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
