/** The list of refinements, newest first. */
import type { Snapshot } from 'hone';
import { useEffect } from 'preact/hooks';
import { hone } from './api.js';
import { Failure, Loading, Status, When, costText, scoreText, useLoaded } from './parts.js';
import { hrefOf, Link, setQuery } from './router.js';

const STATUSES = ['queued', 'running', 'paused', 'canceling', 'succeeded', 'failed', 'canceled'];
const REFRESH_MS = 2_000;

interface Page {
  data: Snapshot[];
  has_more: boolean;
  next_cursor: string | null;
}

export function RefinementList({ query }: { query: URLSearchParams }) {
  const status = query.get('status') ?? '';
  const cursor = query.get('cursor') ?? '';
  const { value, failure, reload } = useLoaded(
    (signal) =>
      hone.request<Page>('/v1/refinements', {
        query: { limit: 25, status: status || undefined, cursor: cursor || undefined },
        signal,
      }),
    [status, cursor],
  );
  useEffect(() => {
    document.title = 'Refinements – Hone';
    const timer = setInterval(() => document.hidden || reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <h1>Refinements</h1>
      <div class="filters">
        <label>
          Status
          <select value={status} onChange={(event) => setQuery({ status: event.currentTarget.value, cursor: '' })}>
            <option value="">any</option>
            {STATUSES.map((it) => (
              <option>{it}</option>
            ))}
          </select>
        </label>
      </div>
      {failure !== undefined && <Failure of={failure} />}
      {!value && failure === undefined && <Loading />}
      {value && <Rows of={value.data} />}
      {value?.has_more && <button onClick={() => setQuery({ cursor: value.next_cursor ?? '' })}>Older</button>}
    </>
  );
}

function Rows({ of }: { of: Snapshot[] }) {
  if (!of.length) return <p class="quiet">No refinements.</p>;
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
          <tr key={it.id}>
            <td>
              <Link href={hrefOf('refinements', it.id)}>{it.id}</Link>
            </td>
            <td>
              <Status of={it.status} />
            </td>
            <td>{scoreText(it.best?.score)}</td>
            <td>{it.strategy}</td>
            <td>{costText(it.usage.cost_usd)}</td>
            <td>
              <When at={it.created_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
