/** An editor for a draft, which shows what was changed before it is sent. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { difference, type Hunk } from './differences.js';
import { Loading, withLineEndsOf } from './parts.js';

interface Edited {
  draft: string;
  edited: string;
  /** Whether it has the focus when it opens: at the beginning of its text. */
  hasFocus: boolean;
  /** Keep what was typed; nothing ends the editing. */
  change: (edited: string | undefined) => void;
  send: (draft: string) => void;
  /** Send it, and approve it once it is judged; nothing where it takes others, too. */
  approve?: ((draft: string) => void) | undefined;
}

const wordsIn = (text: string): number => text.match(/\S+/g)?.length ?? 0;

export function Editor({ draft, edited, hasFocus, change, send, approve }: Edited) {
  const [isCompared, setCompared] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (!hasFocus) return;
    field.current?.setSelectionRange(0, 0);
    field.current?.focus();
  }, []);
  const text = withLineEndsOf(draft, edited);
  const isSame = text === draft;
  return (
    <>
      <label class="line">
        Your draft
        <textarea
          ref={field}
          class="draft"
          data-key="e"
          rows={14}
          maxLength={200_000}
          value={edited}
          onInput={(event) => change(event.currentTarget.value)}
        />
      </label>
      <p class="quiet">
        {wordsIn(text).toLocaleString('en')} words; the draft under review has {wordsIn(draft).toLocaleString('en')}
      </p>
      <p class="actions">
        {approve && (
          <button class="main" disabled={isSame || !text.trim()} onClick={() => approve(text)}>
            Send and approve
          </button>
        )}
        <button class={approve ? '' : 'main'} disabled={isSame || !text.trim()} onClick={() => send(text)}>
          Send this draft
        </button>
        <button aria-pressed={isCompared} onClick={() => setCompared(!isCompared)}>
          Show what I changed
        </button>
        <button onClick={() => change(undefined)}>Discard my changes</button>
      </p>
      {isCompared && (isSame ? <p>Nothing is changed yet.</p> : <Changes from={draft} to={text} />)}
    </>
  );
}

const SETTLED_MS = 300;
const KEPT_AROUND = 200;

/** What changed, word by word. */
function Changes({ from, to }: { from: string; to: string }) {
  const [hunks, setHunks] = useState<Hunk[]>();
  useEffect(() => {
    const ending = new AbortController();
    const look = () => difference(from, to, ending.signal).then((found) => ending.signal.aborted || setHunks(found));
    const timer = setTimeout(look, SETTLED_MS);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [from, to]);
  if (!hunks) return <Loading what="Comparing" />;
  return (
    <pre class="text draft" tabIndex={0} role="region" aria-label="What you changed">
      {hunks.flatMap((hunk) =>
        hunk.words.map((it) =>
          it.change === 'added' ? (
            <ins>{it.text}</ins>
          ) : it.change === 'removed' ? (
            <del>{it.text}</del>
          ) : (
            <span>{endsOf(it.text)}</span>
          ),
        ),
      )}
    </pre>
  );
}

/** Return the ends of a long text that did not change. */
const endsOf = (text: string): string =>
  text.length > 3 * KEPT_AROUND ? `${text.slice(0, KEPT_AROUND)}\n[…]\n${text.slice(-KEPT_AROUND)}` : text;
