/** The filters of the list. They stand in the address, so that a list can be passed on. */
import { useState } from 'preact/hooks';
import { hone } from './api.js';
import { Committed, localTime, useLoaded, words } from './parts.js';
import { hrefOf, navigate, setQuery } from './router.js';
import { isolated } from './title.js';

const STATUSES = ['queued', 'running', 'paused', 'canceling']; // what has ended has an outcome
const OUTCOMES = ['passed', 'best_effort', 'failed', 'canceled'];
const NUMBERS: [string, string, string][] = [
  ['min_score', 'Score from', '0.05'],
  ['max_score', 'Score to', '0.05'],
  ['min_cost_usd', 'Cost from $', '0.01'],
  ['max_cost_usd', 'Cost to $', '0.01'],
];
const TIMES: [string, string][] = [
  ['submitted_from', 'Submitted from'],
  ['submitted_to', 'Submitted to'],
];
const NAMES = ['q', 'status', 'outcome', 'strategy', 'metadata', 'batch', ...NUMBERS.map(([it]) => it), ...TIMES.map(([it]) => it)];
const ID = /\bref_[0-9A-HJKMNP-TV-Z]{26}\b/;

export const isFiltered = (query: URLSearchParams): boolean => [...NAMES, 'cursor'].some((it) => query.get(it));

/** Return what the filters are, for a title. */
export const titlesOf = (query: URLSearchParams): string[] => [
  ...NAMES.flatMap((name) => query.getAll(name).filter(Boolean).map((it) => `${name.replaceAll('_', ' ')} ${isolated(it)}`)),
  query.get('cursor') ? 'older' : '',
];

interface Offers {
  data: { kind: string }[];
}

export function Filters({ query, isRead }: { query: URLSearchParams; isRead: boolean }) {
  const [isOpen, setOpen] = useState(() => NAMES.some((it) => it !== 'q' && query.get(it)));
  return (
    <search class="filters">
      <Search query={query} />
      {isFiltered(query) && <button onClick={() => navigate(hrefOf('refinements'))}>Show all</button>}
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Filters</summary>
        {isOpen && isRead && (
          <div class="fields-of-filters">
            <Fields query={query} />
          </div>
        )}
      </details>
    </search>
  );
}

function Fields({ query }: { query: URLSearchParams }) {
  const { value: strategies } = useLoaded((signal) => hone.request<Offers>('/v1/strategies', { signal }), []);
  const change = (name: string) => (value: string) => setQuery({ [name]: value, cursor: '' });
  return (
    <>
      <fieldset class="choices">
        <legend>Status</legend>
        {STATUSES.map((it) => (
          <Choice name="status" value={it} chosen={query.getAll('status')} />
        ))}
      </fieldset>
      <fieldset class="choices">
        <legend>Outcome</legend>
        {OUTCOMES.map((it) => (
          <Choice name="outcome" value={it} chosen={query.getAll('outcome')} />
        ))}
      </fieldset>
      <label>
        Strategy
        <select value={query.get('strategy') ?? ''} onChange={(event) => change('strategy')(event.currentTarget.value)}>
          <option value="">any</option>
          {strategies?.data.map((it) => <option value={it.kind}>{it.kind}</option>)}
        </select>
      </label>
      <label>
        Metadata
        <Committed
          value={query.getAll('metadata').join(' ')}
          placeholder="ticket=4711"
          commit={(pairs) => setQuery({ metadata: pairs.trim().split(/\s+(?=[\w.-]+=)/), cursor: '' })}
        />
      </label>
      {NUMBERS.map(([name, title, step]) => (
        <label>
          {title}
          <Committed type="number" min="0" step={step} value={query.get(name) ?? ''} commit={change(name)} />
        </label>
      ))}
      {TIMES.map(([name, title]) => (
        <label>
          {title}
          <Committed
            type="datetime-local"
            value={localTime(query.get(name))}
            commit={(text) => change(name)(text && new Date(text).toISOString())}
          />
        </label>
      ))}
      <label>
        Batch
        <Committed value={query.get('batch') ?? ''} placeholder="batch_…" commit={change('batch')} />
      </label>
    </>
  );
}

function Choice({ name, value, chosen }: { name: string; value: string; chosen: string[] }) {
  const isChosen = chosen.includes(value);
  const toggle = () =>
    setQuery({ [name]: isChosen ? chosen.filter((it) => it !== value) : [...chosen, value], cursor: '' });
  return (
    <label class="choice">
      <input type="checkbox" checked={isChosen} onChange={toggle} /> {words(value)}
    </label>
  );
}

/** Finds refinements by what their texts contain. A text with a whole id in it, such as an address, leads there. */
function Search({ query }: { query: URLSearchParams }) {
  const look = (event: SubmitEvent) => {
    event.preventDefault();
    const sought = String(new FormData(event.currentTarget as HTMLFormElement).get('q')).trim();
    const id = ID.exec(sought);
    if (id) navigate(hrefOf('refinements', id[0]));
    else setQuery({ q: sought, cursor: '' }, false);
  };
  return (
    <form onSubmit={look}>
      <label>
        Search
        <input key={query.get('q')} type="search" name="q" defaultValue={query.get('q') ?? ''} placeholder="Words, title, id" data-key="/" />
      </label>{' '}
      <button>Search</button>
    </form>
  );
}
