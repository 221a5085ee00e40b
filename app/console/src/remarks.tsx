/** Remarks on passages of a draft: marked with the mouse, or by their words. */
import type { schema } from 'hone';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { isChange, type Piece } from './changes.js';
import type { Remark, Words } from './kept.js';
import { Name } from './parts.js';

const MOST = 20;
const SETTLED_MS = 200;

interface Marked {
  of: string;
  /** What became of the text that was given, if its changes are to be shown. */
  pieces: Piece[] | undefined;
  remarks: Remark[];
  selected: (start: number, end: number) => void;
}

/** The draft with its marked passages, and with its changes. What is selected in it can be marked. */
export function MarkedDraft({ of, pieces = [{ text: of }], remarks, selected }: Marked) {
  const box = useRef<HTMLPreElement>(null);
  const sorted = [...remarks].sort((one, other) => one.start - other.start);
  let at = 0; // in the draft
  /** Draw a part of the draft, cut where remarks begin and end. */
  const drawn = (text: string): ComponentChildren[] => {
    const [from, parts] = [at, [] as ComponentChildren[]];
    at += text.length;
    let done = from;
    for (const it of sorted) {
      const [start, end] = [Math.max(it.start, from), Math.min(it.end, at)];
      if (start >= end) continue;
      parts.push(of.slice(done, start), <mark title={it.text || undefined}>{of.slice(start, end)}</mark>);
      done = end;
    }
    return [...parts, of.slice(done, at)];
  };
  const latest = useRef(selected);
  latest.current = selected;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    /** Fingers that move the ends of a selection send no other event. */
    const look = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const found = box.current && selectedIn(box.current);
        if (found) latest.current(...found);
      }, SETTLED_MS);
    };
    document.addEventListener('selectionchange', look);
    return () => (clearTimeout(timer), document.removeEventListener('selectionchange', look));
  }, []);
  return (
    <pre
      class="text draft"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label="The draft under review"
    >
      {pieces.map((it) =>
        isChange(it) ? (
          <span data-why={it.reason || undefined}>
            {it.before && <del>{it.before}</del>}
            {it.after && <ins>{drawn(it.after)}</ins>}
          </span>
        ) : (
          drawn(it.text)
        ),
      )}
    </pre>
  );
}

/** Return the text of a part of the draft, without what was removed from it. */
function textIn(range: Range): string {
  const part = range.cloneContents();
  for (const it of part.querySelectorAll('del')) it.remove();
  const around = range.commonAncestorContainer;
  return (around instanceof Element ? around : around.parentElement)?.closest('del') ? '' : (part.textContent ?? '');
}

/** Return where the selection is in an element, in UTF-16 units of the draft and without white space at the ends. */
function selectedIn(element: HTMLElement): [number, number] | null {
  const selection = getSelection();
  if (!selection?.rangeCount) return null;
  const range = selection.getRangeAt(0).cloneRange();
  const whole = document.createRange();
  whole.selectNodeContents(element);
  if (!range.intersectsNode(element)) return null;
  if (range.compareBoundaryPoints(Range.START_TO_START, whole) < 0) range.setStart(element, 0);
  if (range.compareBoundaryPoints(Range.END_TO_END, whole) > 0) range.setEnd(element, element.childNodes.length);
  const text = textIn(range);
  if (!text.trim()) return null;
  whole.setEnd(range.startContainer, range.startOffset);
  const start = textIn(whole).length + text.length - text.trimStart().length;
  return [start, start + text.trim().length];
}

interface Remarking {
  words: Words;
  keep: (words: Words) => void;
  draft: string;
  wrong: string;
  setWrong: (wrong: string) => void;
}

/** The remarks so far, and the next one. */
export function Remarks({ words, keep, draft, wrong, setWrong }: Remarking) {
  const field = useRef<HTMLTextAreaElement>(null);
  const add = () => {
    const [next, problem] = withRemark(words, draft);
    setWrong(problem);
    if (problem) return;
    keep(next);
    field.current?.focus();
  };
  const without = (left: Remark) => keep({ ...words, remarks: words.remarks.filter((it) => it !== left) });
  return (
    <fieldset class="group">
      <legend>Remarks on passages</legend>
      {words.remarks.length > 0 && (
        <ol>
          {words.remarks.map((it) => (
            <li>
              <mark>
                <Name of={it.quote.length > 160 ? `${it.quote.slice(0, 160)}…` : it.quote} />
              </mark>{' '}
              <Name of={it.text} />{' '}
              <button aria-label={`Remove the remark on ${it.quote.slice(0, 60)}`} onClick={() => without(it)}>
                Remove
              </button>
            </li>
          ))}
        </ol>
      )}
      <label class="line">
        Passage: select it in the draft, or type its words
        <textarea
          ref={field}
          rows={2}
          aria-invalid={Boolean(wrong)}
          value={words.passage.quote}
          onInput={(event) => keep({ ...words, passage: { quote: event.currentTarget.value } })}
        />
      </label>
      <label class="line">
        Remark on it
        <textarea rows={2} data-key="m" value={words.remark} onInput={(event) => keep({ ...words, remark: event.currentTarget.value })} />
      </label>
      {wrong && (
        <p class="error" role="alert">
          {wrong}
        </p>
      )}
      <button disabled={!words.passage.quote.trim()} onClick={add}>
        Add the remark
      </button>
      {words.remarks.length > 0 && (
        <label class="choice">
          <input
            type="checkbox"
            checked={words.isLimited}
            onChange={(event) => keep({ ...words, isLimited: event.currentTarget.checked })}
          />
          Only these passages may change
        </label>
      )}
    </fieldset>
  );
}

/** Return the words with the remark that is being written among the others, or what is wrong with it. */
export function withRemark(words: Words, draft: string): [Words, string] {
  const quote = words.passage.quote.trim();
  const start = words.passage.start ?? draft.indexOf(quote);
  const end = start + quote.length;
  if (!quote) return [words, 'Which passage is the remark about? Select it in the draft, or type its words.'];
  if (start < 0) return [words, 'The draft does not have these words: check the spelling and the line breaks.'];
  if (words.passage.start === undefined && draft.indexOf(quote, start + 1) >= 0)
    return [words, 'The draft has these words more than once: select them in the draft, or type more of the words around them.'];
  if (words.remarks.some((it) => it.start < end && start < it.end)) return [words, 'Another remark is about a part of this passage.'];
  if (words.remarks.length >= MOST) return [words, `A review has at most ${MOST} remarks on passages.`];
  const remark = { start, end, quote, text: words.remark.trim() };
  return [{ ...words, remarks: [...words.remarks, remark], passage: { quote: '' }, remark: '' }, ''];
}

/** Return the places of remarks as the API has them: in code points. */
export function spansOf(remarks: Remark[], draft: string): schema.Passage[] {
  const points = (text: string): number => [...text].length;
  return remarks.map(({ start, end, quote }) => {
    const from = points(draft.slice(0, start));
    return { quote, start: from, end: from + points(draft.slice(start, end)) };
  });
}
