/** The list of refinements, newest first, what waits for a person or a provider on top, and what was found. */
import type { Snapshot } from 'hone';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { hone, mayDecide, type Session } from './api.js';
import { Filters, isFiltered, titlesOf } from './filters.js';
import { costText, Failure, Loading, Name, scoreText, Status, useLoaded, useRepeated, When, words } from './parts.js';
import { hrefOf, Link, setQuery } from './router.js';
import { useShortcuts, walk } from './shortcuts.js';
import { TITLE, titleOf, useTitle } from './title.js';
import { waitOf } from './words.js';

const PAGE = 25;
/** Rows that are read first: a screen of them comes soon over a slow connection, and the others after them. */
const FIRST = 5;
const SHOWN_WAITING = 3;
const TIME_FIELDS = ['submitted_from', 'submitted_to'];
const IGNORED = ['metadata', 'token'];

interface Page {
  data: Snapshot[];
  has_more: boolean;
  next_cursor: string | null;
}

type Query = Record<string, string | string[] | undefined>;

export function RefinementList({ query, session }: { query: URLSearchParams; session: Session }) {
  const [isRead, setRead] = useState(false); // what is less urgent waits for the first rows
  useTitle('Refinements', ...titlesOf(query));
  useShortcuts((key) => {
    if (key === '/') document.querySelector<HTMLElement>('input[type="search"]')?.focus();
    if (key !== 'j' && key !== 'k') return key === '/';
    return walk([...document.querySelectorAll<HTMLElement>('table.rows td:first-child > a')], key === 'j' ? 1 : -1) >= 0;
  });
  const isWhole = isRead && !isFiltered(query);
  return (
    <>
      <h1>Refinements</h1>
      {isRead && <Health />}
      {isWhole && <WaitingForMe session={session} />}
      {isWhole && <WaitingForProviders />}
      <Filters query={query} isRead={isRead} />
      <Pages query={query} read={() => setRead(true)} />
    </>
  );
}

/** The titles of what was submitted last. */
export function Recent() {
  const { value, repeat } = useLoaded((signal) => read({ limit: `${FIRST}` }, signal), []);
  useRepeated(repeat);
  if (!value?.data.length) return null;
  return (
    <section>
      <h2>Last texts</h2>
      <Rows of={value.data} />
      <p>
        <Link href={hrefOf('refinements')}>All refinements</Link>
      </p>
    </section>
  );
}

function Pages({ query, read: isRead }: { query: URLSearchParams; read: () => void }) {
  const asked = queryOf(query);
  const [limit, setLimit] = useState(FIRST);
  const { value, failure, repeat } = useLoaded((signal) => read({ ...asked, limit: `${limit}` }, signal), [query.toString(), limit]);
  useRepeated(repeat);
  useEffect(() => {
    if (!value) return;
    isRead();
    setLimit(PAGE);
  }, [value]);
  if (failure !== undefined) return <Failure of={failure} />;
  if (!value) return <Loading />;
  return (
    <>
      {query.get('q') && <p class="quiet">In ids, titles, metadata, tasks, drafts and results. Of archived texts only the titles are searched.</p>}
      {value.data.length ? <Rows of={value.data} /> : isFiltered(query) ? <p class="quiet">{noneOf(value)}</p> : <Empty />}
      <p class="pages">
        {query.get('cursor') && <button onClick={() => history.back()}>Newer</button>}
        {value.has_more && limit === PAGE && <button onClick={() => setQuery({ cursor: value.next_cursor ?? '' }, false)}>Older</button>}
      </p>
    </>
  );
}

const noneOf = (page: Page): string =>
  page.has_more ? 'None of the newest refinements is like that. Older ones may be.' : 'No refinement is like that.';

function Empty() {
  return (
    <div class="empty">
      <p>
        <strong>Nothing was refined yet.</strong> A refinement is one text, made better step by step and judged after each.
      </p>
      <p>
        <Link href={hrefOf()}>Paste a text</Link>, or send one from a shell: <code>hone submit FILE</code>
      </p>
    </div>
  );
}

const read = (query: Query, signal?: AbortSignal) =>
  hone.request<Page>('/v1/refinements', { query: { ...query, result: 'false' }, signal });

/** Return the query of the API for that of the page. */
function queryOf(query: URLSearchParams): Query {
  const asked: Query = {};
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

function Rows({ of }: { of: Snapshot[] }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th>Text</th>
          <th>Outcome</th>
          <th class="number">Score</th>
          <th class="number">Cost</th>
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

/** A link to a refinement by its title, with what else tells it apart in small print. */
export function Titled({ of, href, children }: { of: Snapshot; href?: string; children?: ComponentChildren }) {
  return (
    <>
      <Link class="title" href={href ?? hrefOf('refinements', of.id)}>
        <Name of={titleOf(of)} />
      </Link>
      <small class="id">
        {of.id}
        {children}
      </small>
    </>
  );
}

function Row({ of }: { of: Snapshot }) {
  const named = Object.entries(of.metadata).filter(([name]) => name !== TITLE);
  return (
    <tr>
      <td>
        <Titled of={of}>
          {' '}
          · {words(of.strategy)}
          {of.custom_id && (
            <>
              {' '}
              · <Name of={of.custom_id} />
            </>
          )}
        </Titled>
        {named.length > 0 && (
          <span class="tags">
            {named.map(([name, value]) => (
              <Link href={`${hrefOf('refinements')}?metadata=${encodeURIComponent(`${name}=${value}`)}`}>
                <Name of={name} />=<Name of={value} />
              </Link>
            ))}
          </span>
        )}
      </td>
      <td>
        <Status of={of.outcome ?? of.status} />
        {of.waiting && <span class="quiet"> waits for {waitOf(of.waiting)}</span>}
        {of.outcome === 'best_effort' && (
          <small class="quiet">
            {' '}
            <Name of={of.reason ?? ''} />
          </small>
        )}
        {of.error && <small class="quiet"> {words(of.error.code)}</small>}
      </td>
      <td class="number">{of.best?.score == null ? '–' : scoreText(Math.trunc(100 * of.best.score + 1e-6) / 100)}</td>
      <td class="number">{costText(of.usage.cost_usd)}</td>
      <td>
        <When at={of.created_at} />
      </td>
    </tr>
  );
}

/** What keeps this service from working as it should: what `/readyz` warns of. */
function Health() {
  const { value, failure, repeat } = useLoaded((signal) => hone.request<Readiness>('/readyz', { signal }), []);
  useRepeated(repeat);
  if (failure !== undefined) return <Failure of={failure} />;
  if (!value || (value.workers && !value.waiting && !value.warnings.length)) return null;
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

/** The reviews that this person may decide, those that end first on top; whether there are more. */
export function useMyReviews(session: Session): { mine?: Snapshot[]; hasMore: boolean; failure?: unknown; repeat: () => void } {
  const { value, failure, repeat } = useLoaded((signal) => read({ status: 'paused', limit: '100' }, signal), []);
  const may = (it: Snapshot) => (it.reviews ?? []).some((review) => mayDecide(session, review.reviewers ?? []));
  const mine = session.scopes.includes('review') ? value?.data.filter(may) : [];
  mine?.sort((one, other) => (one.review?.deadline ?? '').localeCompare(other.review?.deadline ?? ''));
  return { ...(mine ? { mine } : {}), hasMore: value?.has_more ?? false, failure, repeat };
}

/** The first of the reviews that wait for this person, or only their number, and the way to all of them. */
export function WaitingForMe({ session, isShort = false }: { session: Session; isShort?: boolean }) {
  const { mine = [], hasMore, repeat } = useMyReviews(session);
  useRepeated(repeat);
  if (!mine.length) return null;
  return (
    <section class="waiting">
      <h2>
        Waiting for your review: {mine.length}
        {hasMore && '+'}
      </h2>
      <ul hidden={isShort}>
        {mine.slice(0, SHOWN_WAITING).map((it) => (
          <li key={it.id}>
            <Titled of={it} href={hrefOf('reviews', it.id)}>
              {it.review && (
                <>
                  {' '}
                  · asked <When at={it.review.asked_at} />, due <When at={it.review.deadline} />
                </>
              )}
            </Titled>
          </li>
        ))}
      </ul>
      <p>
        <Link href={hrefOf('reviews')}>Review them one after the other</Link>
      </p>
    </section>
  );
}

/** What waits for a model's provider, by model and reason. */
function WaitingForProviders() {
  const { value, repeat } = useLoaded((signal) => read({ status: 'running', limit: '100' }, signal), []);
  useRepeated(repeat);
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
            {value?.has_more && ' or more'})
            <ul>
              {waiting.slice(0, SHOWN_WAITING).map((it) => (
                <li key={it.id}>
                  <Titled of={it} />
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </section>
  );
}
