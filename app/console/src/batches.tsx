/** Batches: how far each is, and what came of one. */
import type { Batch } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { Ask } from './dialog.js';
import { download, Failure, Loading, Name, Status, Unread, useLoaded, useRepeated, When, words } from './parts.js';
import { hrefOf, Link, navigate, setQuery } from './router.js';
import { useTitle } from './title.js';
import { Deliveries } from './webhooks.js';

interface Page {
  data: Batch[];
  has_more: boolean;
  next_cursor: string | null;
}

export function BatchList({ query }: { query: URLSearchParams }) {
  const cursor = query.get('cursor') ?? '';
  const { value, failure, reload } = useLoaded(
    (signal) => hone.request<Page>('/v1/batches', { query: { cursor: cursor || undefined }, signal }),
    [cursor],
  );
  useRepeated(reload);
  useTitle('Batches', cursor && 'older');
  return (
    <>
      <h1>Batches</h1>
      {failure !== undefined && <Failure of={failure} />}
      {!value && failure === undefined && <Loading />}
      {value && !value.data.length && (
        <p class="quiet">
          No batches. <code>hone batch FILE.jsonl</code> submits one.
        </p>
      )}
      {value && value.data.length > 0 && (
        <table class="rows listing">
          <thead>
            <tr>
              <th>Batch</th>
              <th>Status</th>
              <th>Progress</th>
              <th>Submitted</th>
            </tr>
          </thead>
          <tbody>
            {value.data.map((it) => (
              <tr key={it.id}>
                <td>
                  <Link href={hrefOf('batches', it.id)}>{it.id}</Link>
                  <span class="tags">
                    {Object.entries(it.metadata ?? {}).map(([name, value]) => (
                      <span>
                        <Name of={name} />: <Name of={value} />
                      </span>
                    ))}
                  </span>
                </td>
                <td>
                  <Status of={it.status} />
                </td>
                <td>
                  <Progress of={it} />
                </td>
                <td>
                  <When at={it.created_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {value?.has_more && <button onClick={() => setQuery({ cursor: value.next_cursor ?? '' }, false)}>Older</button>}
    </>
  );
}

const ENDED = ['passed', 'best_effort', 'failed', 'canceled', 'invalid', 'erased'] as const;

/** A bar of what has ended, and the counts in words. */
function Progress({ of: { counts } }: { of: Batch }) {
  const ended = ENDED.reduce((sum, it) => sum + (counts[it] ?? 0), 0);
  const parts = Object.entries(counts).filter(([name, count]) => name !== 'total' && count);
  return (
    <>
      <progress max={counts.total || 1} value={ended} aria-label="ended" /> {ended} of {counts.total}
      <span class="quiet"> {parts.map(([name, count]) => `${count} ${words(name)}`).join(', ')}</span>
    </>
  );
}

export function BatchPage({ id, session }: { id: string; session: Session }) {
  const { value: batch, failure, reload } = useLoaded(() => hone.getBatch(id), [id]);
  useRepeated(() => batch?.ended_at || reload());
  useTitle(batch?.status, id);
  if (!batch) return failure === undefined ? <Loading /> : <Unread id={id} failure={failure} />;
  return (
    <>
      <h1>
        {id} <Status of={batch.status} />
      </h1>
      {failure !== undefined && <Failure of={failure} />}
      <p role="status">
        <Progress of={batch} />
      </p>
      <p>
        <Link href={`${hrefOf('refinements')}?batch=${id}`}>Its refinements</Link>
        {batch.waiting && <span class="quiet"> The next ones wait: {batch.waiting.reason.replaceAll('_', ' ')}</span>}
      </p>
      {batch.errors.length > 0 && (
        <section>
          <h2>Requests that were refused</h2>
          <ul>
            {batch.errors.map((it) => (
              <li>
                Line {it.line}
                {it.custom_id && <> (<Name of={it.custom_id} />)</>}: <Name of={it.error.detail} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {batch.ended_at && <Deliveries of={`/v1/batches/${id}`} session={session} />}
      <Actions of={batch} session={session} reload={reload} />
    </>
  );
}

function Actions({ of, session, reload }: { of: Batch; session: Session; reload: () => void }) {
  const [failure, setFailure] = useState<unknown>();
  const [isDeleting, setDeleting] = useState(false);
  const act = (call: () => Promise<unknown>, after: () => void) => {
    setFailure(undefined);
    call().then(after, setFailure);
  };
  const erase = async () => {
    await hone.request(`/v1/batches/${of.id}`, { method: 'DELETE' });
    navigate(hrefOf('batches'));
    return '';
  };
  return (
    <section>
      <h2>Actions</h2>
      <p class="actions">
        <button onClick={() => act(() => downloadResults(of.id), () => undefined)}>Download results (JSON Lines)</button>
        {session.scopes.includes('submit') && !of.ended_at && (
          <button onClick={() => act(() => hone.cancelBatch(of.id), reload)}>Cancel what has not ended</button>
        )}
        {session.scopes.includes('submit') && (
          <button class="danger" aria-haspopup="dialog" onClick={() => setDeleting(true)}>
            Delete…
          </button>
        )}
      </p>
      {isDeleting && (
        <Ask title="Delete the batch?" label="Delete all" isDanger run={erase} done={() => undefined} close={() => setDeleting(false)}>
          <p>The batch and all of its refinements are deleted, for good.</p>
        </Ask>
      )}
      {failure !== undefined && <Failure of={failure} />}
    </section>
  );
}

async function downloadResults(id: string): Promise<void> {
  const lines: string[] = [];
  for await (const it of hone.batchResults(id)) lines.push(`${JSON.stringify(it)}\n`);
  download(`${id}.jsonl`, lines, 'application/jsonl');
}
