/** One refinement, live: its text and how it stands, what can be done to it, and its parts. */
import { ApiError, type schema, type Snapshot } from 'hone';
import type { ComponentType } from 'preact';
import { useState } from 'preact/hooks';
import { Actions, EraseButton } from './actions.js';
import { hone, mayDecide, readToken, type Session } from './api.js';
import { Drafts } from './drafts.js';
import { type Live, useRefinement } from './live.js';
import { Events } from './events.js';
import { Figures, TheText } from './overview.js';
import { useNames } from './names.js';
import { Failure, Loading, Name, Names, scoreText, Status, Unread, useLoaded, When, words } from './parts.js';
import { RequestView } from './request.js';
import { hrefOf, Link } from './router.js';
import { showsDraft } from './review.js';
import { Steer } from './steer.js';
import { Steps } from './steps.js';
import { isolated, TITLE, titleOf, useTitle } from './title.js';
import { CAVEATS, fixOf, STATUSES, TIMEOUTS, waitOf } from './words.js';

/** What a view of a refinement is given. */
export interface View {
  id: string;
  snapshot: Snapshot;
  live: Live;
  session: Session;
  /** The drafts that were judged, with the beginnings of their texts. */
  drafts: { value?: schema.IterationList | undefined; failure?: unknown };
}

interface Tab {
  /** The last part of the address. */
  path: string;
  title: string;
  view: ComponentType<View>;
  /** Whether it has what a read link does not show, such as the addresses of endpoints. */
  isForKeys?: boolean;
}

/** The parts of the page, in order; the first one is shown where the address names none. */
const TABS: Tab[] = [
  { path: 'overview', title: 'Overview', view: Figures },
  { path: 'drafts', title: 'Drafts', view: Drafts },
  { path: 'steps', title: 'Steps', view: Steps },
  { path: 'request', title: 'Request', view: RequestView, isForKeys: true },
  { path: 'events', title: 'Events', view: Events },
];

export function RefinementPage({ id, part, session }: { id: string; part: string; session: Session }) {
  const live = useRefinement(id);
  const { snapshot, failure } = live;
  const [said, say] = useState('');
  const tabs = TABS.filter((it) => !(readToken && it.isForKeys));
  const tab = tabs.find((it) => it.path === (part || 'overview'));
  const isReviewed = session.scopes.includes('review') && (snapshot?.reviews ?? []).some((it) => mayDecide(session, it.reviewers ?? []) && showsDraft(it));
  // A long journal is read for them: a draft under review comes without them.
  const areNeeded = snapshot !== undefined && (!isReviewed || tab?.path === 'drafts');
  const drafts = useLoaded(
    () => (areNeeded ? hone.iterations(id, { excerpts: true }) : Promise.resolve(undefined)),
    [id, areNeeded, snapshot?.scores.length, snapshot?.status],
  );
  useTitle(snapshot && words(snapshot.outcome ?? snapshot.status), tab?.title, isolated(snapshot ? titleOf(snapshot) : ''), id);
  if (!snapshot || isGone(failure)) return failure === undefined ? <Loading /> : <Unread id={id} failure={failure} />;
  const view = { id, snapshot, live, session, drafts };
  return (
    <>
      <h1>
        <Name of={titleOf(snapshot)} /> <Status of={snapshot.outcome ?? snapshot.status} /> <small class="id">{id}</small>
      </h1>
      {failure !== undefined && <Failure of={failure} />}
      <nav class="tabs" aria-label="Parts of the refinement">
        {tabs.map((it) => (
          <Link href={hrefOf('refinements', id, it.path)} aria-current={it === tab ? 'page' : undefined}>
            {it.title}
          </Link>
        ))}
      </nav>
      <Steer {...{ snapshot, live, session, said, say }} />
      {tab?.view === Figures && !isReviewed && <TheText {...view} />}
      <Standing of={snapshot} drafts={drafts.value?.data} />
      {tab?.view === Figures && <Actions {...{ snapshot, live, session, say }} />}
      {tab ? <tab.view {...view} /> : <p>{readToken && part === 'request' ? 'A read link does not show the request: sign in with a key to see it.' : 'The refinement has no part with this name.'}</p>}
      {tab?.view !== Figures && <Actions {...{ snapshot, live, session, say }} />}
      <Origin of={snapshot} live={live} session={session} />
    </>
  );
}

/** Whether it was erased meanwhile: nothing of it is shown any more. */
const isGone = (failure: unknown): boolean => failure instanceof ApiError && failure.status === 404;

/** Where it comes from: strategy, submission, and what it continues. */
function Origin({ of, live, session }: { of: Snapshot; live: Live; session: Session }) {
  const began = of.continued_from;
  const nameOf = useNames(session);
  const metadata = Object.entries(of.metadata).filter(([name]) => name !== TITLE);
  return (
    <footer class="quiet origin">
      <span>{words(of.strategy)}</span>
      <span>
        submitted <When at={of.created_at} />
      </span>
      {of.submitted_by && (
        <span>
          by <Name of={of.submitted_by === session.key_id ? 'you' : nameOf(of.submitted_by)} />
        </span>
      )}
      {of.status === 'queued' && of.start_after && (
        <span>
          starts <When at={of.start_after} />
        </span>
      )}
      {of.parent && (
        <span>
          continues <Link href={hrefOf('refinements', of.parent)}>{of.parent}</Link>
          {began && ` from ${began.path}`}
        </span>
      )}
      {live.retries > 0 && live.isCaughtUp && <span>retried {live.retries === 1 ? 'once' : `${live.retries} times`}</span>}
      {of.ended_at && !readToken && <Continuations of={of} />}
      {of.batch && (
        <span>
          in batch <Link href={hrefOf('batches', of.batch)}>{of.batch}</Link>
          {of.custom_id && (
            <>
              {' '}
              as <Name of={of.custom_id} />
            </>
          )}
        </span>
      )}
      {metadata.map(([name, value]) => (
        <span>
          <Name of={name} />: <Name of={value} />
        </span>
      ))}
      {of.erased_at && (
        <span>
          its texts were erased <When at={of.erased_at} />
        </span>
      )}
      {of.expires_at && !of.erased_at && (
        <span>
          kept until <time dateTime={of.expires_at}>{new Date(of.expires_at).toLocaleString()}</time>
        </span>
      )}
      {session.scopes.includes('submit') && <EraseButton snapshot={of} />}
    </footer>
  );
}

/** The refinements that continue this one, of those that were submitted last. */
function Continuations({ of }: { of: Snapshot }) {
  const { value } = useLoaded(
    (signal) =>
      hone.request<{ data: Snapshot[] }>('/v1/refinements', {
        query: { parent: of.id, submitted_from: of.created_at, result: 'false' },
        signal,
      }),
    [of.id, of.ended_at],
  );
  if (!value?.data.length) return null;
  return (
    <span>
      continued by{' '}
      {value.data.map((it, index) => (
        <>
          {index > 0 && ', '}
          <Link href={hrefOf('refinements', it.id)}>{it.id}</Link> (<Name of={titleOf(it)} />, {words(it.outcome ?? it.status)})
        </>
      ))}
    </span>
  );
}

/** How it stands: why it ended or waits, and what is wrong; a change is announced. */
function Standing({ of, drafts }: { of: Snapshot; drafts: Drafts | undefined }) {
  const reviews = of.reviews ?? [];
  return (
    <>
      <div role="status" class="standing">
        <p>
          <Reason of={of} drafts={drafts} />
        </p>
        <span class="unseen">
          {of.waiting && `Waits for ${waitOf(of.waiting)}.`}
          {reviews.map((it) => (
            <Name of={it.question} />
          ))}
        </span>
      </div>
      {of.waiting && (
        <p class="notice">
          <strong>Waits for {waitOf(of.waiting)}.</strong>{' '}
          <Name of={of.waiting.detail || 'Nothing is lost, and it goes on by itself.'} />
          {of.waiting.reason === 'tenant_quota' && !readToken && (
            <>
              {' '}
              <Link href={hrefOf('tenants')}>The quotas</Link>
            </>
          )}
        </p>
      )}
      {reviews.map((it) => (
        <p class="notice" key={it.key}>
          <strong>
            <Name of={it.question} />
          </strong> {it.when === 'requested' ? 'Paused' : 'Asked'} <When at={it.asked_at} />
          {it.reviewers?.length ? (
            <>
              ; of <Names of={it.reviewers} />
            </>
          ) : null}
          {(it.approvals_needed ?? 1) > 1 && `; ${it.approvals?.length ?? 0} of ${it.approvals_needed} approvals given`}
          {it.approvals?.length ? (
            <>
              {' '}
              by <Names of={it.approvals.map((by) => by.reviewer)} />
            </>
          ) : null}
          . Without a decision{' '}
          {TIMEOUTS[it.on_timeout] ?? it.on_timeout} <When at={it.deadline} />.
        </p>
      ))}
      {of.error && (
        <div class="failure" role="alert">
          <p>
            <strong>{of.error.code}</strong>: <Name of={of.error.detail} />
          </p>
          {of.error.steps?.length ? <p class="quiet">At {of.error.steps.join(', ')}.</p> : null}
          <p>{fixOf(of.error.code)}</p>
        </div>
      )}
      <Caveats of={of} />
    </>
  );
}

/** Why it ended as it did: in one sentence, and then in the words of the server; an error is shown in full beside it. */
function Reason({ of, drafts }: { of: Snapshot; drafts: Drafts | undefined }) {
  if (of.outcome === null || of.error) return <>{STATUSES[of.status] ?? of.status}</>;
  const low = of.outcome === 'best_effort' ? lowestOf(of, drafts) : '';
  return (
    <>
      <strong class={`outcome ${of.outcome}`}>
        {sentence(words(of.outcome))}
        {low && (
          <>
            : <Name of={low} />
          </>
        )}
        {low ? '.' : ':'}
      </strong>{' '}
      <Name of={of.reason ?? ''} />
    </>
  );
}

type Drafts = schema.IterationList['data'];

/** Say which criterion of the best draft stayed lowest below the threshold. */
function lowestOf(of: Snapshot, drafts: Drafts | undefined): string {
  const scores = drafts?.find((it) => it.path === of.best?.path)?.scores ?? [];
  const known = scores.filter((it) => it.score != null && it.score < of.threshold);
  const lowest = known.sort((one, other) => (one.score ?? 0) - (other.score ?? 0))[0];
  return lowest ? `${lowest.criterion} stayed at ${scoreText(Math.trunc(100 * (lowest.score ?? 0)) / 100)}` : '';
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function Caveats({ of }: { of: Snapshot }) {
  const caveats = of.result?.caveats ?? [];
  if (!caveats.length) return null;
  return (
    <section class="notice">
      <h2>Caveats</h2>
      <ul>
        {caveats.map((it) => (
          <li>
            <strong>{CAVEATS[it.code] ?? it.code}</strong> ({it.path}): <Name of={it.detail} />
          </li>
        ))}
      </ul>
    </section>
  );
}
