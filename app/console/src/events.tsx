/** The journal: every event with its number, time and data. */
import { useMemo, useState } from 'preact/hooks';
import { hone } from './api.js';
import { jsonOf } from './code.js';
import type { Journaled } from './live.js';
import { Failure, Loading, Text, useLoaded } from './parts.js';
import type { View } from './refinement.js';
import { setQuery } from './router.js';

const PER_PAGE = 100;

export function Events({ id, live }: View) {
  const query = new URLSearchParams(location.search);
  const type = query.get('type') ?? '';
  const count = live.events.length; // events are added, never changed
  const types = useMemo(() => [...new Set(live.events.map((it) => it.type))].sort(), [count]);
  const found = useMemo(() => (type ? live.events.filter((it) => it.type === type) : live.events), [type, count]);
  const pages = Math.max(1, Math.ceil(found.length / PER_PAGE));
  const page = Math.min(pages, Math.max(1, Number(query.get('page')) || 1));
  const turn = (to: number) => () => setQuery({ page: to === 1 ? '' : String(to) });
  return (
    <section>
      <h2>Events</h2>
      <div class="filters">
        <label>
          Type
          <select value={type} onChange={(event) => setQuery({ type: event.currentTarget.value, page: '' })}>
            <option value="">any</option>
            {types.map((it) => (
              <option>{it}</option>
            ))}
          </select>
        </label>
        <span>
          {found.length.toLocaleString('en')} events
          {pages > 1 && (
            <>
              , page {page} of {pages}{' '}
              <button disabled={page === 1} onClick={turn(page - 1)}>
                Earlier
              </button>{' '}
              <button disabled={page === pages} onClick={turn(page + 1)}>
                Later
              </button>
            </>
          )}
        </span>
      </div>
      <ol class="events">
        {found.slice((page - 1) * PER_PAGE, page * PER_PAGE).map((it) => (
          <EventRow key={it.event} id={id} of={it} />
        ))}
      </ol>
    </section>
  );
}

function EventRow({ id, of }: { id: string; of: Journaled }) {
  const [isOpen, setOpen] = useState(false);
  const { key, path } = of.data as { key?: string; path?: string };
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="number">{of.event}</span> <time dateTime={of.at}>{timeText(of.at)}</time> <strong>{of.type}</strong>{' '}
          <span>{key ?? path ?? ''}</span>
        </summary>
        {isOpen && <Whole id={id} of={of} />}
      </details>
    </li>
  );
}

/** The data of an event with its texts, of which the stream has excerpts. */
function Whole({ id, of }: { id: string; of: Journaled }) {
  const { value, failure } = useLoaded(
    (signal) =>
      hone.request<{ data: Journaled[] }>(`/v1/refinements/${id}/events`, {
        query: { after: of.event - 1, limit: 1 },
        headers: { Accept: 'application/json' },
        signal,
      }),
    [],
  );
  const text = useMemo(() => jsonOf(value?.data[0]?.data, 2), [value]);
  if (!value) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  return <Text of={text} />;
}

/** The time of the day to the millisecond, as the clock of the reader. */
const timeText = (at: string): string => {
  const time = new Date(at);
  return `${time.toLocaleTimeString('en-GB')}.${String(time.getMilliseconds()).padStart(3, '0')}`;
};
