/** What became of a text, as changes that a person decides about one by one. */
import type { schema } from 'hone';
import { difference, type Word } from './differences.js';

/** Words that were put in place of others; either may be empty. */
export interface Change {
  /** Its number, from 0. */
  index: number;
  before: string;
  after: string;
  /** Why it was made, as far as that was recorded. */
  reason: string;
}

export type Piece = { text: string } | Change;

export const isChange = (piece: Piece): piece is Change => 'index' in piece;

/** What a person decided about changes, by `keyOf`. */
export type Decisions = Record<string, 'accepted' | 'undone'>;

export const keyOf = ({ index, before, after }: Change): string => `${index} ${before.slice(0, 60)} ${after.slice(0, 60)}`;

/** Return the text with all changes but those that were undone. */
export const textWith = (pieces: Piece[], decisions: Decisions): string =>
  pieces.map((it) => (isChange(it) ? (decisions[keyOf(it)] === 'undone' ? it.before : it.after) : it.text)).join('');

type Iterations = schema.IterationList['data'];

/** Return what became of a text; changes with nothing but a space between them are one. Nothing once the signal is aborted. */
export async function piecesOf(before: string, after: string, drafts: Iterations, signal: AbortSignal): Promise<Piece[]> {
  const hunks = await difference(before, after, signal);
  const reasons = reasonsFor(before, drafts);
  const pieces: Piece[] = [];
  let at = 0; // in the text before
  let open: { start: number; before: string; after: string; glue: string } | null = null;
  const close = () => {
    if (!open) return;
    let { start, before, after, glue } = open;
    open = null;
    const tail = /\s*$/.exec(before)?.[0] ?? '';
    if (tail && before.trim() && after.trim() && after.endsWith(tail)) {
      [before, after, glue] = [before.slice(0, -tail.length), after.slice(0, -tail.length), tail + glue];
    }
    const index = pieces.filter(isChange).length;
    pieces.push({ index, before, after, reason: reasons(start, start + before.length, before, after) });
    if (glue) pieces.push({ text: glue });
  };
  for (const { text, change } of hunks.flatMap((it): Word[] => it.words)) {
    if (change === 'same') {
      if (open && /^[ \t]+$/.test(text)) (open as { glue: string }).glue += text;
      else {
        close();
        pieces.push({ text });
      }
      at += text.length;
      continue;
    }
    open ??= { start: at, before: '', after: '', glue: '' };
    open.before += open.glue;
    open.after += open.glue;
    open.glue = '';
    if (change === 'removed') {
      open.before += text;
      at += text.length;
    } else open.after += text;
  }
  close();
  return pieces;
}

const MOST_PLACES = 5;

/** Return a function that finds why a passage of the first text was changed: by the problems with words of it, narrowest first. */
function reasonsFor(text: string, drafts: Iterations): (start: number, end: number, before: string, after: string) => string {
  const places: { start: number; end: number; reason: string }[] = [];
  const seen = new Set<string>();
  for (const { issues = [] } of drafts)
    for (const { quote, message, fix } of issues) {
      const reason = fix && !message.includes(fix) ? `${message} ${fix}` : message;
      if (!quote || seen.has(`${quote}\0${reason}`)) continue;
      seen.add(`${quote}\0${reason}`);
      let start = text.indexOf(quote);
      for (let count = 0; start >= 0 && count < MOST_PLACES; count++) {
        places.push({ start, end: start + quote.length, reason });
        start = text.indexOf(quote, start + quote.length);
      }
    }
  places.sort((one, other) => one.end - one.start - (other.end - other.start));
  const fixes = drafts.flatMap((it) => (it.fixes ?? []).flatMap(({ kind, changes }) => changes.map((made) => ({ kind, ...made }))));
  return (start, end, before, after) => {
    const found = places.find((it) => it.start < Math.max(end, start + 1) && start < it.end);
    if (found) return found.reason;
    const fixed = fixes.find((it) => it.before && it.before.includes(before.trim()) && it.after.includes(after.trim()));
    return fixed ? `Corrected by the check of ${fixed.kind}.` : '';
  };
}
