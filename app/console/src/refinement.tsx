/** One refinement, live: how it stands, what can be done to it, and its parts. */
import type { Snapshot } from 'hone';
import type { ComponentType } from 'preact';
import { hone, readToken, type Session } from './api.js';
import { Drafts } from './drafts.js';
import { type Live, useRefinement } from './live.js';
import { Events } from './events.js';
import { Overview } from './overview.js';
import { costText, Failure, Loading, Name, Names, scoreText, secondsText, Status, Unread, useLoaded, useNow, When, words } from './parts.js';
import { RequestView } from './request.js';
import { hrefOf, Link } from './router.js';
import { Steer } from './steer.js';
import { Steps } from './steps.js';
import { isolated, useTitle } from './title.js';
import { CAVEATS, fixOf, STATUSES, TIMEOUTS, waitOf } from './words.js';

/** What a view of a refinement is given. */
export interface View {
  id: string;
  snapshot: Snapshot;
  live: Live;
  session: Session;
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
  { path: 'overview', title: 'Overview', view: Overview },
  { path: 'drafts', title: 'Drafts', view: Drafts },
  { path: 'steps', title: 'Steps', view: Steps },
  { path: 'request', title: 'Request', view: RequestView, isForKeys: true },
  { path: 'events', title: 'Events', view: Events },
];

export function RefinementPage({ id, part, session }: { id: string; part: string; session: Session }) {
  const live = useRefinement(id);
  const { snapshot, failure } = live;
  const tabs = TABS.filter((it) => !(readToken && it.isForKeys));
  const tab = tabs.find((it) => it.path === (part || 'overview'));
  useTitle(snapshot && words(snapshot.outcome ?? snapshot.status), tab?.title, isolated(snapshot?.excerpt ?? ''), id);
  if (!snapshot) return failure === undefined ? <Loading /> : <Unread id={id} failure={failure} />;
  const view = { id, snapshot, live, session };
  return (
    <>
      <h1>
        {id} <Status of={snapshot.outcome ?? snapshot.status} />{' '}
        {snapshot.excerpt && (
          <span class="excerpt">
            <Name of={snapshot.excerpt} />
          </span>
        )}
      </h1>
      {failure !== undefined && <Failure of={failure} />}
      <Origin of={snapshot} live={live} />
      <Facts of={snapshot} live={live} />
      <Standing of={snapshot} />
      <Steer snapshot={snapshot} live={live} session={session} />
      <nav class="tabs" aria-label="Parts of the refinement">
        {tabs.map((it) => (
          <Link href={hrefOf('refinements', id, it.path)} aria-current={it === tab ? 'page' : undefined}>
            {it.title}
          </Link>
        ))}
      </nav>
      {tab ? <tab.view {...view} /> : <p>{readToken && part === 'request' ? 'A read link does not show the request: sign in with a key to see it.' : 'The refinement has no part with this name.'}</p>}
    </>
  );
}

/** Where it comes from: strategy, submission, and what it continues. */
function Origin({ of, live }: { of: Snapshot; live: Live }) {
  const began = of.continued_from;
  const metadata = Object.entries(of.metadata);
  return (
    <p class="quiet origin">
      <span>{of.strategy}</span>
      <span>
        submitted <When at={of.created_at} />
      </span>
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
      {live.retries > 0 && <span>retried {live.retries === 1 ? 'once' : `${live.retries} times`}</span>}
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
    </p>
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
          <Link href={hrefOf('refinements', it.id)}>{it.id}</Link> ({words(it.outcome ?? it.status)})
        </>
      ))}
    </span>
  );
}

/** The figures: score against threshold, estimate, iterations, and what was spent. */
function Facts({ of, live }: { of: Snapshot; live: Live }) {
  const now = useNow(of.started_at !== null && of.ended_at === null);
  const { usage, result } = of;
  const score = result ? result.score : of.best?.score;
  const estimate = result?.estimate;
  const ended = of.ended_at ? Date.parse(of.ended_at) : Math.max(now, live.latest);
  return (
    <dl class="facts">
      <Fact name="Score" note={`threshold ${scoreText(of.threshold)}`}>
        {scoreText(score)}
      </Fact>
      {estimate && (
        <Fact name="Estimate" note={estimate.chance == null ? '' : `chance of the threshold: ${Math.floor(100 * estimate.chance)} %`}>
          {scoreText(estimate.value)} <small>± {scoreText(estimate.error)}</small>
        </Fact>
      )}
      <Fact name="Iteration" {...beyond(of, live)}>
        {of.iteration === null ? '–' : Math.min(of.iteration, of.max_iterations)} <small>of {of.max_iterations}</small>
      </Fact>
      <Fact
        name="Calls"
        note={`${(usage.input_tokens ?? 0).toLocaleString('en')} + ${(usage.output_tokens ?? 0).toLocaleString('en')} tokens`}
      >
        {usage.calls ?? 0}
      </Fact>
      <Fact name="Cost">{usage.cost_usd == null ? 'unknown' : costText(usage.cost_usd)}</Fact>
      <Fact name="Time" note={`steps: ${secondsText(usage.seconds ?? 0)}`}>
        {of.started_at ? secondsText(Math.max(0, ended - Date.parse(of.started_at)) / 1000) : 'not started'}
      </Fact>
    </dl>
  );
}

/** Say what the limit does not count: a review may ask for one more, and the limit may be lowered. */
function beyond(of: Snapshot, live: Live): { note?: string } {
  const more = (of.iteration ?? 0) - of.max_iterations;
  if (more <= 0) return {};
  const asked = live.events.filter((it) => it.type === 'refinement.reviewed' && ['revise', 'replace'].includes(it.data.action));
  return { note: asked.length >= more ? `and ${more} more that reviews asked for` : `and ${more} more before the limit was lowered` };
}

interface Named {
  name: string;
  note?: string;
  children: preact.ComponentChildren;
}

function Fact({ name, note, children }: Named) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {children}
        {note && <small class="note">{note}</small>}
      </dd>
    </div>
  );
}

/** How it stands: why it ended or waits, and what is wrong; a change is announced. */
function Standing({ of }: { of: Snapshot }) {
  const reviews = of.reviews ?? [];
  return (
    <>
      <div role="status" class="standing">
        <p>
          <Reason of={of} />
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

/** Why it ended as it did, in the words of the server; an error is shown in full beside it. */
function Reason({ of }: { of: Snapshot }) {
  if (of.outcome === null || of.error) return <>{STATUSES[of.status] ?? of.status}</>;
  return (
    <>
      <strong>{words(of.outcome)}:</strong> <Name of={of.reason ?? ''} />
    </>
  );
}

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
