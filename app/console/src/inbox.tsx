/** The reviews that wait for this person, one after the other: the text, why it waits, and the decision. */
import type { Snapshot } from 'hone';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Session } from './api.js';
import { useMyReviews } from './list.js';
import { useRefinement } from './live.js';
import { useNames } from './names.js';
import { Failure, Loading, Name, Names, Unread, useRepeated, When } from './parts.js';
import { hrefOf, Link, navigate } from './router.js';
import { goTo, useShortcuts } from './shortcuts.js';
import { Steer } from './steer.js';
import { isolated, TITLE, titleOf, useTitle } from './title.js';
import { TIMEOUTS } from './words.js';

/** The inbox; without an id it shows the review that ends first. */
export function Inbox({ id, session }: { id: string | undefined; session: Session }) {
  const { mine, hasMore, failure, repeat } = useMyReviews(session);
  useRepeated(repeat);
  const nameOf = useNames(session);
  const chosen = id ?? mine?.[0]?.id;
  const at = mine?.findIndex((it) => it.id === chosen) ?? -1;
  useEffect(() => {
    if (!id && chosen) navigate(hrefOf('reviews', chosen), true); // it stays in sight once it is decided
  }, [id, chosen]);
  const title = mine && at >= 0 ? titleOf(mine[at] as Snapshot) : '';
  useTitle('Reviews', isolated(title));
  const went = useRef(at); // where it was, once it is decided and gone from the list
  useEffect(() => {
    if (at >= 0) went.current = at;
  }, [at]);
  const go = (step: 1 | -1) => {
    if (!mine?.length) return false;
    const from = at >= 0 ? at + step : Math.max(0, went.current - (step < 0 ? 1 : 0));
    const next = mine[(from + mine.length) % mine.length];
    if (next && next.id !== chosen) navigate(hrefOf('reviews', next.id));
    return true;
  };
  useShortcuts((key) => (key === 'j' ? go(1) : key === 'k' ? go(-1) : 'aremx'.includes(key) && goTo(key)));
  if (!mine) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  if (!chosen) return <NothingWaits isReviewer={session.scopes.includes('review')} />;
  return (
    <div class="inbox">
      <nav class="waits" aria-label="Reviews">
        <p class="which">
          <strong>
            {at >= 0 ? `${at + 1} of ${mine.length}` : `${mine.length} more`}
            {hasMore && '+'}
          </strong>
          <button aria-label="Previous review" aria-keyshortcuts="k" onClick={() => go(-1)} disabled={mine.length < 2 && at >= 0}>
            ‹
          </button>
          <button aria-label="Next review" aria-keyshortcuts="j" onClick={() => go(1)} disabled={mine.length < 2 && at >= 0}>
            ›
          </button>
        </p>
        <ul>
          {mine.map((it) => (
            <li key={it.id}>
              <Link class="title" href={hrefOf('reviews', it.id)} aria-current={it.id === chosen ? 'page' : undefined}>
                <Name of={titleOf(it)} />
              </Link>
              <small class="quiet">
                {it.review && (
                  <>
                    due <When at={it.review.deadline} />
                  </>
                )}
              </small>
            </li>
          ))}
        </ul>
        <p class="quiet keys">
          <kbd>j</kbd> next <kbd>k</kbd> previous <kbd>a</kbd> approve <kbd>e</kbd> edit
        </p>
      </nav>
      <Waiting
        key={chosen}
        id={chosen}
        session={session}
        nameOf={nameOf}
        next={() => go(1)}
        left={mine.filter((it) => it.id !== chosen).length}
      />
    </div>
  );
}

function NothingWaits({ isReviewer }: { isReviewer: boolean }) {
  return (
    <>
      <h1>Reviews</h1>
      <div class="empty">
        <p>
          <strong>{isReviewer ? 'Nothing waits for you.' : 'This key may not review: it lacks the scope “review”.'}</strong>
        </p>
        <p>
          A text waits here when its request asks for a person: <code>"review": {'{'}"when": "before_completion"{'}'}</code> shows you the
          result before it counts, <code>each_iteration</code> every draft. You approve it, edit it, or mark a passage and say what is wrong.
        </p>
        <p>
          <Link href={hrefOf('new')}>Submit a text with a review</Link>
        </p>
      </div>
    </>
  );
}

interface Shown {
  id: string;
  session: Session;
  nameOf: (id: string) => string;
  next: () => void;
  /** How many others wait. */
  left: number;
}

function Waiting({ id, session, nameOf, next, left }: Shown) {
  const live = useRefinement(id);
  const { snapshot, failure } = live;
  const [said, say] = useState('');
  if (!snapshot) return <div>{failure === undefined ? <Loading /> : <Unread id={id} failure={failure} />}</div>;
  const isOpen = (snapshot.reviews ?? []).length > 0;
  return (
    <article>
      <h1>
        <Name of={titleOf(snapshot)} />{' '}
        <small class="id">
          <Link href={hrefOf('refinements', id)}>{id}</Link>
        </small>
      </h1>
      {failure !== undefined && <Failure of={failure} />}
      <Why of={snapshot} {...{ session, nameOf }} />
      <Steer {...{ snapshot, live, session, said, say }} />
      {!isOpen && (
        <p class="actions">
          {left > 0 ? (
            <button class="main" aria-keyshortcuts="j" onClick={next}>
              Next review
            </button>
          ) : (
            <span class="quiet">That was the last one.</span>
          )}
          <Link href={hrefOf('refinements', id)}>See how it goes on</Link>
        </p>
      )}
    </article>
  );
}

/** Why a draft waits, in a few words; of a call the server's question says it. */
const WHENS: Record<string, string> = {
  before_completion: 'The result counts once a person has seen it.',
  each_iteration: 'Every draft of it is reviewed.',
  requested: 'Somebody has paused it.',
};

/** Who submitted it. */
function By({ id, session, nameOf }: { id: string | null | undefined } & Pick<Shown, 'session' | 'nameOf'>) {
  if (!id) return null;
  return (
    <>
      {' '}
      for <Name of={session.reviews_as.includes(id) ? 'you' : nameOf(id)} />
    </>
  );
}

/** Why it waits, for whom and of whom it was asked, and what happens without a decision. */
function Why({ of, session, nameOf }: { of: Snapshot } & Pick<Shown, 'session' | 'nameOf'>) {
  const named = Object.entries(of.metadata).filter(([name]) => name !== TITLE);
  return (
    <>
      {(of.reviews ?? []).map((it) => (
        <p class="why" key={it.key}>
          <Name of={WHENS[it.when ?? ''] ?? it.question} /> Asked <When at={it.asked_at} />
          <By id={of.submitted_by} {...{ session, nameOf }} />
          {it.reviewers?.length ? (
            <>
              ; of <Names of={it.reviewers} />
            </>
          ) : null}
; without a decision {TIMEOUTS[it.on_timeout] ?? it.on_timeout} <When at={it.deadline} />.
        </p>
      ))}
      {named.length > 0 && (
        <p class="tags quiet">
          {named.map(([name, value]) => (
            <span>
              <Name of={name} />: <Name of={value} />
            </span>
          ))}
        </p>
      )}
    </>
  );
}
