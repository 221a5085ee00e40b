/** The journal: every event with its number, time and data. */
import { useState } from 'preact/hooks';
import type { Journaled } from './live.js';
import { Text } from './parts.js';
import type { View } from './refinement.js';
import { setQuery } from './router.js';

const PER_PAGE = 100;

export function Events({ live }: View) {
  const query = new URLSearchParams(location.search);
  const type = query.get('type') ?? '';
  const types = [...new Set(live.events.map((it) => it.type))].sort();
  const found = type ? live.events.filter((it) => it.type === type) : live.events;
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
          <EventRow key={it.event} of={it} />
        ))}
      </ol>
    </section>
  );
}

function EventRow({ of }: { of: Journaled }) {
  const [isOpen, setOpen] = useState(false);
  const { key, path } = of.data as { key?: string; path?: string };
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="number">{of.event}</span> <time dateTime={of.at}>{timeText(of.at)}</time> <strong>{of.type}</strong>{' '}
          <span>{key ?? path ?? ''}</span>
        </summary>
        {isOpen && <Text of={JSON.stringify(of.data, null, 2)} />}
      </details>
    </li>
  );
}

/** The time of the day to the millisecond, as the clock of the reader. */
const timeText = (at: string): string => {
  const time = new Date(at);
  return `${time.toLocaleTimeString('en-GB')}.${String(time.getMilliseconds()).padStart(3, '0')}`;
};
