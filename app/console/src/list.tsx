/** The list of refinements, newest first, and what waits for a person or a provider on top. */
import type { Snapshot } from 'hone';
import { hone, mayDecide, type Session } from './api.js';
import { Filters, isFiltered, titlesOf } from './filters.js';
import { costText, Failure, Loading, Name, scoreText, Status, useLoaded, useRepeated, When, words } from './parts.js';
import { hrefOf, Link, setQuery } from './router.js';
import { useTitle } from './title.js';
import { waitOf } from './words.js';

const PAGE = 25;
const SHOWN_WAITING = 5;
const TIME_FIELDS = ['submitted_from', 'submitted_to'];
const IGNORED = ['metadata', 'token'];

interface Page {
  data: Snapshot[];
  has_more: boolean;
  next_cursor: string | null;
}

type Query = Record<string, string | string[] | undefined>;

export function RefinementList({ query, session }: { query: URLSearchParams; session: Session }) {
  useTitle('Refinements', ...titlesOf(query));
  return (
    <>
      <h1>Refinements</h1>
      <Health />
      {!isFiltered(query) && <WaitingForMe session={session} />}
      {!isFiltered(query) && <WaitingForProviders />}
      <Filters query={query} />
      <Pages query={query} />
    </>
  );
}

function Pages({ query }: { query: URLSearchParams }) {
  const asked = queryOf(query);
  const { value, failure, reload } = useLoaded((signal) => read(asked, signal), [query.toString()]);
  useRepeated(reload);
  if (failure !== undefined) return <Failure of={failure} />;
  if (!value) return <Loading />;
  return (
    <>
      <Rows of={value.data} isFiltered={isFiltered(query)} />
      <p class="pages">
        {query.get('cursor') && <button onClick={() => history.back()}>Newer</button>}
        {value.has_more && <button onClick={() => setQuery({ cursor: value.next_cursor ?? '' }, false)}>Older</button>}
      </p>
    </>
  );
}

const read = (query: Query, signal?: AbortSignal) =>
  hone.request<Page>('/v1/refinements', { query: { ...query, result: 'false' }, signal });

/** Return the query of the API for that of the page. */
function queryOf(query: URLSearchParams): Query {
  const asked: Query = { limit: `${PAGE}` };
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name).filter(Boolean);
    if (IGNORED.includes(name) || !values.length) continue;
    const at = Date.parse(values[0] ?? '');
    asked[name] = TIME_FIELDS.includes(name) && !Number.isNaN(at) ? new Date(at).toISOString() : values;
  }
  for (const pair of query.getAll('metadata')) {
    const at = pair.indexOf('=');
    if (at > 0) asked[`metadata.${pair.slice(0, at)}`] = pair.slice(at + 1);
  }
  return asked;
}

function Rows({ of, isFiltered }: { of: Snapshot[]; isFiltered: boolean }) {
  if (!of.length) {
    if (isFiltered) return <p class="quiet">No refinement is like that.</p>;
    return (
      <p class="quiet">
        No refinements yet. <Link href={hrefOf('new')}>Submit a text</Link>, or send one from a shell with{' '}
        <code>hone submit FILE</code>.
      </p>
    );
  }
  return (
    <table class="rows">
      <thead>
        <tr>
          <th>Refinement</th>
          <th>Status</th>
          <th>Score</th>
          <th>Strategy</th>
          <th>Cost</th>
          <th>Submitted</th>
        </tr>
      </thead>
      <tbody>
        {of.map((it) => (
          <Row key={it.id} of={it} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ of }: { of: Snapshot }) {
  const named = Object.entries(of.metadata);
  return (
    <tr>
      <td>
        <Link href={hrefOf('refinements', of.id)}>{of.id}</Link>
        {of.excerpt && (
          <span class="excerpt">
            <Name of={of.excerpt} />
          </span>
        )}
        {of.custom_id && (
          <span class="quiet">
            {' '}
            <Name of={of.custom_id} />
          </span>
        )}
        {named.length > 0 && (
          <span class="tags">
            {named.map(([name, value]) => (
              <Link href={`${hrefOf()}?metadata=${encodeURIComponent(`${name}=${value}`)}`}>
                <Name of={name} />=<Name of={value} />
              </Link>
            ))}
          </span>
        )}
      </td>
      <td>
        <Status of={of.outcome ?? of.status} />
        {of.waiting && <WaitText of={of} />}
        {of.outcome === 'best_effort' && (
          <span class="quiet">
            {' '}
            <Name of={of.reason ?? ''} />
          </span>
        )}
        {of.error && <span class="quiet"> {words(of.error.code)}</span>}
      </td>
      <td>{scoreText(of.best?.score)}</td>
      <td>{of.strategy}</td>
      <td>{costText(of.usage.cost_usd)}</td>
      <td>
        <When at={of.created_at} />
      </td>
    </tr>
  );
}

function WaitText({ of: { waiting } }: { of: Snapshot }) {
  if (!waiting) return null;
  return (
    <span class="quiet">
      {' '}
      waits for {waitOf(waiting)}
    </span>
  );
}

/** Whether this service works at all: what `/readyz` warns of. */
function Health() {
  const { value, failure, reload } = useLoaded((signal) => hone.request<Readiness>('/readyz', { signal }), []);
  useRepeated(reload);
  if (failure !== undefined) return <Failure of={failure} />;
  if (!value) return null;
  return (
    <p class="quiet">
      {value.workers} {value.workers === 1 ? 'worker' : 'workers'}, {value.waiting} waiting to begin
      {value.workers === 0 && '. Nothing goes on until one is started: hone worker'}
      {value.warnings.map((it) => (
        <span class="warning">{it}</span>
      ))}
    </p>
  );
}

interface Readiness {
  workers: number;
  waiting: number;
  warnings: string[];
}

/** The reviews that this person may decide, those that end first on top. */
function WaitingForMe({ session }: { session: Session }) {
  const { value, reload } = useLoaded((signal) => read({ status: 'paused', limit: '100' }, signal), []);
  useRepeated(reload);
  const mine = (value?.data ?? []).filter((it) => (it.reviews ?? []).some((review) => mayDecide(session, review.reviewers ?? [])));
  if (!mine.length || !session.scopes.includes('review')) return null;
  mine.sort((one, other) => (one.review?.deadline ?? '').localeCompare(other.review?.deadline ?? ''));
  return (
    <section class="waiting">
      <h2>
        Waiting for your review: {mine.length}
        {value?.has_more && '+'}
      </h2>
      <ul>
        {mine.slice(0, SHOWN_WAITING).map((it) => (
          <li key={it.id}>
            <Link href={hrefOf('refinements', it.id)}><Name of={it.review?.question || it.id} /></Link>
            <span class="quiet">
              {' '}
              {it.id}, score {scoreText(it.best?.score)}
              {it.review && (
                <>
                  , asked <When at={it.review.asked_at} />, {words(it.review.on_timeout)} <When at={it.review.deadline} />
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
      {mine.length > SHOWN_WAITING && <Link href={`${hrefOf()}?status=paused`}>All that are paused</Link>}
    </section>
  );
}

/** What waits for a model's provider, by model and reason. */
function WaitingForProviders() {
  const { value, reload } = useLoaded((signal) => read({ status: 'running', limit: '100' }, signal), []);
  useRepeated(reload);
  const groups = new Map<string, Snapshot[]>();
  for (const it of value?.data ?? []) {
    if (!it.waiting) continue;
    const name = waitOf(it.waiting);
    groups.set(name, [...(groups.get(name) ?? []), it]);
  }
  if (!groups.size) return null;
  return (
    <section class="waiting">
      <h2>Waiting for a provider</h2>
      <ul>
        {[...groups].map(([name, waiting]) => (
          <li key={name}>
            {name} ({waiting.length}
            {value?.has_more && ' or more'}){' '}
            {waiting.slice(0, SHOWN_WAITING).map((it) => (
              <>
                <Link href={hrefOf('refinements', it.id)}>{it.id}</Link>{' '}
              </>
            ))}
          </li>
        ))}
      </ul>
    </section>
  );
}
