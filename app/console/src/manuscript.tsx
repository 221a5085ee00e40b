/** A text with what changed in it: each change has its reason, and is accepted or undone. */
import type { schema } from 'hone';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Change, type Decisions, isChange, keyOf, type Piece, piecesOf, textWith } from './changes.js';
import { Same, visible } from './marks.js';
import { Copy, download, Loading, Name, Text } from './parts.js';
import { useShortcuts, walk } from './shortcuts.js';

type View = 'changes' | 'clean' | 'before';

const VIEWS: [View, string][] = [
  ['changes', 'Changes'],
  ['clean', 'Clean'],
  ['before', 'Before'],
];
const NO_DRAFTS: schema.IterationList['data'] = [];

interface Shown {
  id: string;
  title: string;
  /** The text that was given; null for a text that was written for a task. */
  before: string | null;
  /** What became of it so far. */
  after: string;
  /** The drafts with their problems, which are the reasons of changes. */
  drafts: schema.IterationList['data'] | undefined;
  /** Whether no more changes will come: then they can be accepted and undone. */
  isFinal: boolean;
  /** Whether the text passed as it is. */
  hasPassed: boolean;
}

/** Return what became of a text, once it was compared; what was compared before stays meanwhile. */
export function usePieces(before: string | null, after: string, drafts = NO_DRAFTS): Piece[] | undefined {
  const [pieces, setPieces] = useState<Piece[]>();
  useEffect(() => {
    const ending = new AbortController();
    if (before === null) setPieces([{ text: after }]);
    else void piecesOf(before, after, drafts, ending.signal).then((found) => ending.signal.aborted || setPieces(found));
    return () => ending.abort();
  }, [before, after, drafts]);
  return pieces;
}

/** What this tab's person decided about the changes of a result; another result is decided about anew. */
function useDecisions(id: string, after: string): [Decisions, (next: Decisions) => void] {
  const place = `hone.changes/${id} ${after.length}`;
  const [decisions, setDecisions] = useState<Decisions>({});
  useEffect(() => {
    try {
      setDecisions(JSON.parse(sessionStorage.getItem(place) ?? '{}') as Decisions);
    } catch {
      setDecisions({});
    }
  }, [place]);
  const decide = (next: Decisions) => {
    setDecisions(next);
    try {
      sessionStorage.setItem(place, JSON.stringify(next));
    } catch {
      // the browser keeps a few megabytes at most
    }
  };
  return [decisions, decide];
}

export function Manuscript({ id, title, before, after, drafts, isFinal, hasPassed }: Shown) {
  const pieces = usePieces(before, after, drafts);
  const [view, setView] = useState<View>('changes');
  const [decisions, decide] = useDecisions(id, after);
  const [current, setCurrent] = useState<number>();
  const box = useRef<HTMLDivElement>(null);
  const changes = useMemo(() => pieces?.filter(isChange) ?? [], [pieces]);
  const open = changes.filter((it) => !decisions[keyOf(it)]);
  const isCompared = before !== null && changes.length > 0;
  const mine = pieces && before !== null ? textWith(pieces, decisions) : after;
  const shown = current === undefined ? undefined : changes[current];
  const go = (step: 1 | -1) => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>('[data-change]') ?? [])];
    const at = walk(all, step, all.find((it) => Number(it.dataset['change']) === current) ?? null);
    if (at >= 0) setCurrent(Number(all[at]?.dataset['change']));
    return at >= 0;
  };
  const settle = (change: Change, decision: 'accepted' | 'undone' | undefined) => {
    const { [keyOf(change)]: _, ...others } = decisions;
    decide(decision ? { ...others, [keyOf(change)]: decision } : others);
    if (decision) focusNext(box.current, change.index);
  };
  useShortcuts((key) => {
    if (view !== 'changes' || !isCompared) return false;
    if (key === 'n') return go(1);
    if (key === 'p') return go(-1);
    return false;
  });
  return (
    <section class="manuscript" aria-label="The text">
      <div class="toolbar">
        {before !== null && (
          <span class="views" role="group" aria-label="What is shown">
            {VIEWS.map(([name, label]) => (
              <button aria-pressed={view === name} onClick={() => setView(name)}>
                {label}
              </button>
            ))}
          </span>
        )}
        {before !== null && (
          <span class="quiet" role="status">
            {pieces ? counted(changes.length, open.length, isFinal, hasPassed) : 'Comparing…'}
          </span>
        )}
        <span class="tools">
          {isFinal && isCompared && view === 'changes' && open.length > 0 && (
            <button onClick={() => decide(Object.fromEntries(changes.map((it) => [keyOf(it), decisions[keyOf(it)] ?? 'accepted'])))}>Accept all</button>
          )}
          <Copy text={view === 'before' ? (before ?? '') : mine} label="Copy the text" isMain={isFinal} />
          <button onClick={() => download(`${fileName(title)}.txt`, [mine], 'text/plain')}>Download</button>
        </span>
      </div>
      <div class={isCompared && view === 'changes' ? 'page beside' : 'page'} ref={box}>
        {view === 'before' && <Text of={before ?? ''} />}
        {(view === 'clean' || (view === 'changes' && before === null)) && <Text of={mine} />}
        {view === 'changes' && before !== null && (pieces ? (
          <Marked {...{ pieces, decisions, current, setCurrent, isFinal, settle }} />
        ) : (
          <Loading what="Comparing" />
        ))}
        {view === 'changes' && isCompared && !shown && (
          <aside class="card hint" aria-label="The change">
            <p class="quiet">
              Choose a change{isFinal && ' to accept or undo it'}: here stands why it was made. <kbd>n</kbd> goes to the next one.
            </p>
          </aside>
        )}
        {view === 'changes' && shown && (
          <Card
            of={shown}
            count={changes.length}
            decision={decisions[keyOf(shown)]}
            {...{ isFinal, settle, go }}
            close={() => setCurrent(undefined)}
          />
        )}
      </div>
      {changes.some((it) => decisions[keyOf(it)] === 'undone') && <p class="quiet">The score is that of the text with all changes.</p>}
    </section>
  );
}

function counted(all: number, open: number, isFinal: boolean, hasPassed: boolean): string {
  if (!all) return hasPassed ? 'Nothing was changed: it was good as it is.' : isFinal ? 'Nothing was changed.' : 'Nothing is changed yet.';
  const changes = `${all} ${all === 1 ? 'change' : 'changes'}`;
  if (!isFinal) return `${changes} so far`;
  return open === all ? changes : open ? `${changes}, ${open} to decide` : `${changes}, all decided`;
}

/** Return a title as the name of a file. */
const fileName = (title: string): string => title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'text';

/** Give the focus to the next change that is not decided, if there is one after this. */
function focusNext(box: HTMLElement | null, index: number): void {
  const all = [...(box?.querySelectorAll<HTMLElement>('.change:not(.settled)') ?? [])];
  const next = all.find((it) => Number(it.dataset['change']) > index) ?? all.find((it) => Number(it.dataset['change']) < index);
  next?.focus();
}

const DRAWN_AT_ONCE = 300;
const LONG = 40_000;

interface Marking {
  pieces: Piece[];
  decisions: Decisions;
  current: number | undefined;
  setCurrent: (index: number) => void;
  isFinal: boolean;
  settle: (change: Change, decision: 'accepted' | 'undone' | undefined) => void;
}

/** The text with its changes, drawn a part at a time. Of a very long one what did not change is folded. */
function Marked({ pieces, decisions, current, setCurrent, isFinal, settle }: Marking) {
  const [drawn, setDrawn] = useState(DRAWN_AT_ONCE);
  useEffect(() => {
    if (drawn >= pieces.length) return;
    const timer = setTimeout(() => setDrawn(drawn + DRAWN_AT_ONCE));
    return () => clearTimeout(timer);
  }, [drawn, pieces]);
  const isLong = useMemo(() => pieces.reduce((sum, it) => sum + (isChange(it) ? it.after : it.text).length, 0) > LONG, [pieces]);
  const first = pieces.find(isChange)?.index;
  const press = (event: KeyboardEvent, change: Change) => {
    const decision = event.key === 'Enter' ? 'accepted' : ['Backspace', 'Delete'].includes(event.key) ? 'undone' : null;
    if (!decision || !isFinal) return;
    event.preventDefault();
    settle(change, decision);
  };
  return (
    <div class="prose" role="group" aria-label="The text with its changes">
      {pieces.slice(0, drawn).map((it) =>
        isChange(it) ? (
          <span
            class={`change ${decisions[keyOf(it)] ? `settled ${decisions[keyOf(it)]}` : ''} ${it.index === current ? 'current' : ''}`}
            data-change={it.index}
            data-why={it.reason || undefined}
            role="button"
            tabIndex={it.index === (current ?? first) ? 0 : -1}
            aria-label={`Change ${it.index + 1}: ${saidOf(it)}. ${it.reason}`}
            onFocus={() => setCurrent(it.index)}
            onClick={(event) => event.currentTarget.focus()}
            onKeyDown={(event) => press(event, it)}
          >
            {decisions[keyOf(it)] === 'undone' ? (
              it.before
            ) : decisions[keyOf(it)] ? (
              it.after || '‸'
            ) : (
              <>
                {it.before && <del>{visible(it.before)}</del>}
                {it.after && <ins>{visible(it.after)}</ins>}
              </>
            )}
          </span>
        ) : isLong ? (
          <Same text={it.text} />
        ) : (
          it.text
        ),
      )}
    </div>
  );
}

const short = (text: string): string => (text.length > 120 ? `${text.slice(0, 120)}…` : text);

function saidOf({ before, after }: Change): string {
  if (!before.trim()) return `“${short(after)}” was added`;
  return after.trim() ? `“${short(before)}” became “${short(after)}”` : `“${short(before)}” was left out`;
}

interface Carded {
  of: Change;
  count: number;
  decision: 'accepted' | 'undone' | undefined;
  isFinal: boolean;
  settle: (change: Change, decision: 'accepted' | 'undone' | undefined) => void;
  go: (step: 1 | -1) => boolean;
  close: () => void;
}

/** One change: what it is, why it was made, and the decision about it. */
function Card({ of, count, decision, isFinal, settle, go, close }: Carded) {
  return (
    <aside class="card" aria-label="The change">
      <p class="which">
        <span>
          Change {of.index + 1} of {count}
        </span>
        <button class="plain" aria-label="Previous change" aria-keyshortcuts="p" onClick={() => go(-1)}>
          ‹
        </button>
        <button class="plain" aria-label="Next change" aria-keyshortcuts="n" onClick={() => go(1)}>
          ›
        </button>
        <button class="plain" aria-label="Close" onClick={close}>
          ×
        </button>
      </p>
      <p class="what">
        {of.before.trim() && <del>{short(of.before)}</del>} {of.after.trim() && <ins>{short(of.after)}</ins>}
      </p>
      <p class="why">{of.reason ? <Name of={of.reason} /> : 'No reason of its own was recorded.'}</p>
      {isFinal && (
        <p class="actions">
          {decision ? (
            <>
              <span class="quiet">{decision === 'accepted' ? 'Accepted.' : 'Undone.'}</span>
              <button onClick={() => settle(of, undefined)}>Decide again</button>
            </>
          ) : (
            <>
              <button class="main" onClick={() => settle(of, 'accepted')}>
                Accept <kbd aria-hidden="true">↵</kbd>
              </button>
              <button onClick={() => settle(of, 'undone')}>
                Undo <kbd aria-hidden="true">⌫</kbd>
              </button>
            </>
          )}
        </p>
      )}
    </aside>
  );
}
