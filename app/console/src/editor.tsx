/** An editor for a draft, which shows what was changed before it is sent. */
import { diffLines, diffWordsWithSpace } from 'diff';
import { useEffect, useMemo, useState } from 'preact/hooks';

interface Edited {
  draft: string;
  edited: string;
  /** Keep what was typed; nothing ends the editing. */
  change: (edited: string | undefined) => void;
  send: (draft: string) => void;
}

const wordsIn = (text: string): number => text.match(/\S+/g)?.length ?? 0;

export function Editor({ draft, edited, change, send }: Edited) {
  const [isCompared, setCompared] = useState(false);
  // A text field has LF alone: a draft whose line ends are all CR LF gets them back.
  const hasCrLf = draft.includes('\r\n') && !/(^|[^\r])\n/.test(draft);
  const text = hasCrLf ? edited.replace(/\r?\n/g, '\r\n') : edited;
  const isSame = text === draft;
  return (
    <>
      <label class="wide">
        Your draft
        <textarea class="draft" rows={14} maxLength={200_000} value={edited} onInput={(event) => change(event.currentTarget.value)} />
      </label>
      <p class="quiet">
        {wordsIn(text).toLocaleString('en')} words, {(wordsIn(text) - wordsIn(draft)).toLocaleString('en', { signDisplay: 'exceptZero' })} to
        the draft under review
      </p>
      <p class="actions">
        <button class="main" disabled={isSame || !text.trim()} onClick={() => send(text)}>
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
const WORDS_MS = 300;
const LINES_MS = 1_000;
const KEPT_AROUND = 200;

/** What changed, word by word; by lines where that would take too long. */
function Changes({ from, to }: { from: string; to: string }) {
  const [settled, setSettled] = useState(to);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(to), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [to]);
  const parts = useMemo(
    () => diffWordsWithSpace(from, settled, { timeout: WORDS_MS }) ?? diffLines(from, settled, { timeout: LINES_MS }),
    [from, settled],
  );
  if (!parts) return <p>The texts have too little in common to be compared here.</p>;
  return (
    <pre class="text draft" tabIndex={0} role="region" aria-label="What you changed">
      {parts.map((it) =>
        it.added ? <ins>{it.value}</ins> : it.removed ? <del>{it.value}</del> : <span>{aroundOf(it.value)}</span>,
      )}
    </pre>
  );
}

/** Return the ends of a long text that did not change. */
const aroundOf = (text: string): string =>
  text.length > 3 * KEPT_AROUND ? `${text.slice(0, KEPT_AROUND)}\n[…]\n${text.slice(-KEPT_AROUND)}` : text;
