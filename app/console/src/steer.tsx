/** The reviews that a person can decide, and what was typed for one and not sent. */
import type { Snapshot } from 'hone';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hone, mayDecide, readDraft, type Session } from './api.js';
import { NOTHING, textOf, useKept, type Words } from './kept.js';
import type { Journaled, Live } from './live.js';
import { Copy, Names } from './parts.js';
import { isEmpty, ReviewPanel, saidIn } from './review.js';
import { ACTIONS } from './words.js';

export interface Steered {
  snapshot: Snapshot;
  live: Live;
  session: Session;
  /** What came of the last decision or command. */
  said: string;
  say: (said: string) => void;
}

export function Steer({ snapshot, live, session, said, say }: Steered) {
  const [kept, keep] = useKept(snapshot.id, session.key_id);
  const [isSending, setSending] = useState(false);
  const isBusy = useRef(false); // a button pressed twice acts once
  const open = session.scopes.includes('review') ? (snapshot.reviews ?? []) : [];
  const reviews = open.filter((it) => mayDecide(session, it.reviewers ?? []));
  const others = open.filter((it) => !reviews.includes(it));
  const sending = async (action: () => Promise<void>) => {
    if (isBusy.current) return;
    isBusy.current = true;
    setSending(true);
    say('');
    await action();
    isBusy.current = false;
    setSending(false);
    live.refresh();
  };
  const [own, setOwn] = useState<{ text: string; instead: string }>(); // what is approved once it is judged, and the review that it answered
  const judged = own && reviews.find((it) => it.key !== own.instead);
  useEffect(() => {
    if (!own || isSending || !judged?.path) return;
    const { key, path } = judged;
    setOwn(undefined);
    void sending(async () => {
      const isMine = (await readDraft(snapshot.id, path)).draft === own.text;
      if (isMine) await hone.review(snapshot.id, { action: 'approve', path: key }, snapshot.last_event);
      say(isMine ? 'Sent and approved.' : 'Look at it again: it is not the text that you sent.');
    }).catch(() => say('It waits for your approval.'));
  }, [own, judged?.key, isSending]);
  // Before all events are known, who was first is not known either.
  const left = isSending || !live.isCaughtUp ? [] : Object.keys(kept).filter((key) => !open.some((it) => it.key === key));
  return (
    <div class="steer">
      <p role="status">{said}</p>
      {left.map((key) => (
        <Unsent
          key={key}
          of={key}
          words={kept[key] ?? NOTHING}
          events={live.events}
          drop={() => keep(key)}
        />
      ))}
      {reviews.map((it) => (
        <ReviewPanel
          key={it.key}
          id={snapshot.id}
          review={it}
          seen={snapshot.last_event}
          events={live.events}
          session={session}
          words={kept[it.key] ?? NOTHING}
          keep={(words) => keep(it.key, words)}
          sending={sending}
          say={say}
          approveLater={setOwn}
        />
      ))}
      {others.map((it) => (
        <p class="notice" key={it.key}>
          The review of {it.path ?? 'the call'} is not yours: only <Names of={it.reviewers ?? []} /> may decide. You are{' '}
          <Names of={session.reviews_as.slice(0, 1)} />.
        </p>
      ))}
    </div>
  );
}

interface Left {
  of: string;
  words: Words;
  events: Journaled[];
  drop: () => void;
}

/** What was typed for a review that is not open any more, and who was first. */
function Unsent({ of, words, events, drop }: Left) {
  const first = events.find((it) => it.type === 'refinement.reviewed' && it.data.key === of);
  const told = first ? saidIn(first) : 'It is not waiting for this review any more.';
  return (
    <section class="notice" aria-label={`Not sent: review ${of}`}>
      <h2>{words.tried ? `Not sent: ${ACTIONS[words.tried] ?? words.tried}` : 'What you wrote was not sent'}</h2>
      <p role="alert">
        {told} (review <code>{of}</code>)
      </p>
      {!isEmpty(words) && (
        <>
          <p>What you wrote is kept here:</p>
          <pre class="text draft" tabIndex={0} role="region" aria-label="What you wrote">
            {textOf(words)}
          </pre>
          <Copy text={textOf(words)} label="Copy what I wrote" />{' '}
        </>
      )}
      <button onClick={drop}>Discard it</button>
    </section>
  );
}
