/** What was consumed: a period, its sums, a bar for each day, and a table by model, strategy, key, outcome or tenant. */
import { scaleLinear } from 'd3-scale';
import type { schema } from 'hone';
import { useRef, useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { useNames } from './names.js';
import { type Column, Listing } from './table.js';
import { Choices, Committed, costText, Fact, Failure, Loading, Name, useLoaded, useWidth, words } from './parts.js';
import { hrefOf, Link, setQuery } from './router.js';
import { useTitle } from './title.js';

type Sums = schema.UsageTotal;
type Row = schema.UsageRow;

const DAY_MS = 86_400_000;
/** Days for which sums are kept: earlier ones have no bar, such as those of year 2 while somebody types a year. */
const KEPT_DAYS = 400;
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

interface Period {
  name: string;
  from: string;
  to: string;
}

/** The usual periods, in days of UTC, by which the server counts. */
function periods(): Period[] {
  const now = new Date();
  const month = (offset: number) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1);
  const today = dayOf(now.getTime());
  return [
    { name: 'Last 30 days', from: dayOf(now.getTime() - 29 * DAY_MS), to: today },
    { name: 'This month', from: dayOf(month(0)), to: today },
    { name: 'Last month', from: dayOf(month(-1)), to: dayOf(month(0) - DAY_MS) },
  ];
}

const GROUPINGS: [string, string][] = [
  ['model', 'Model'],
  ['strategy', 'Strategy'],
  ['key', 'Key'],
  ['outcome', 'Outcome'],
  ['day', 'Day'],
];

/** What a bar can stand for. */
const MEASURES: [string, string, (of: schema.UsageSums) => number][] = [
  ['cost', 'Cost', (of) => of.cost_usd ?? 0],
  ['tokens', 'Tokens', (of) => of.input_tokens + of.output_tokens],
  ['refinements', 'Refinements', (of) => of.refinements],
];

export function CostPage({ query, session }: { query: URLSearchParams; session: Session }) {
  const known = periods();
  const from = query.get('from') || known[0]?.from || '';
  const to = query.get('to') || known[0]?.to || '';
  const period = known.find((it) => it.from === from && it.to === to);
  const groupings = session.tenant === 'default' && session.scopes.includes('admin') ? [...GROUPINGS, ['tenant', 'Tenant'] as [string, string]] : GROUPINGS;
  const by = groupings.find(([it]) => it === query.get('by'))?.[0] ?? 'model';
  const title = period?.name ?? `${from} to ${to}`;
  useTitle('Cost', title);
  const asked = { of: 'usage', from, to };
  const days = useUsage({ ...asked, group_by: 'day' });
  const groups = useUsage({ ...asked, group_by: by });
  const report = days.value;
  const nameOf = useNames(session);
  const dearestFirst = (one: Row, other: Row) => (by === 'day' ? 0 : (other.cost_usd ?? 0) - (one.cost_usd ?? 0));
  return (
    <>
      <h1>Cost</h1>
      <div class="toolbar">
        <Choices label="Period" of={known.map((it) => [it.name, it.name])} chosen={period?.name} choose={(name) => {
          const it = known.find((other) => other.name === name);
          setQuery({ from: it?.from ?? '', to: it?.to ?? '' });
        }} />
        <label class="beside">
          from <Committed type="date" value={from} max={to} commit={(day) => day && setQuery({ from: day, to })} />
        </label>
        <label class="beside">
          to <Committed type="date" value={to} min={from} commit={(day) => day && setQuery({ from, to: day })} />
        </label>
      </div>
      {days.failure !== undefined && <Failure of={days.failure} />}
      {!report && days.failure === undefined && <Loading />}
      {report && <Totals of={report.total} title={title} />}
      {report && !report.total.refinements && !report.total.calls && <Nothing />}
      {report && (report.total.refinements > 0 || report.total.calls > 0) && (
        <>
          <Days of={report} chosen={query.get('show')} />
          <h2>What it was spent on</h2>
          <Choices label="Sums by" of={groupings} chosen={by} choose={(name) => setQuery({ by: name })} />
          {groups.failure !== undefined && <Failure of={groups.failure} />}
          {groups.value && <Listing of={[...groups.value.data].sort(dearestFirst)} columns={columnsOf(by, nameOf)} file={`hone-cost-${from}-${to}-by-${by}`} caption={`Cost by ${by}`} />}
        </>
      )}
    </>
  );
}

function useUsage(query: Record<string, string>): { value?: schema.UsageReport; failure?: unknown } {
  return useLoaded((signal) => hone.request<schema.UsageReport>('/v1/statistics', { query, signal }), Object.values(query));
}

function Nothing() {
  return (
    <div class="empty">
      <p>
        <strong>Nothing ended in these days.</strong> A refinement counts on the day (UTC) on which it ended, with all that its models consumed, also when
        it did not pass. The sums stay when it is erased.
      </p>
      <p>
        <Link href={hrefOf()}>Refine a text</Link>, or look at <Link href={`${hrefOf('cost')}?from=${dayOf(Date.now() - 364 * DAY_MS)}&to=${dayOf(Date.now())}`}>the last year</Link>
      </p>
    </div>
  );
}

function Totals({ of, title }: { of: Sums; title: string }) {
  const number = (it: number) => it.toLocaleString('en');
  return (
    <dl class="facts" aria-label={title}>
      <Fact name={`Cost, ${title.toLowerCase()}`} note={of.unpriced_calls > 0 ? `without ${number(of.unpriced_calls)} calls of unknown price` : ''}>
        {moneyText(of)}
      </Fact>
      <Fact name="Of it, did not pass" note={of.not_passed.refinements === 1 ? '1 refinement' : `${number(of.not_passed.refinements)} refinements`}>
        {moneyText(of.not_passed)}
      </Fact>
      <Fact name="Refinements" note={of.refinements && of.cost_usd ? `${costText(of.cost_usd / of.refinements)} each` : ''}>
        {number(of.refinements)}
      </Fact>
      <Fact name="Calls" note={`${number(of.input_tokens)} + ${number(of.output_tokens)} tokens`}>
        {number(of.calls)}
      </Fact>
    </dl>
  );
}

const moneyText = (of: schema.UsageSums): string => (of.cost_usd === null ? 'unknown' : costText(of.cost_usd));

const HEIGHT = 200;
const MARGIN = { top: 12, right: 8, bottom: 26, left: 56 };

/** A bar for each day; the part that did not pass is hatched. The pointer chooses a day, whose figures stand below. */
function Days({ of, chosen }: { of: schema.UsageReport; chosen: string | null }) {
  const first = of.total.cost_usd ? 'cost' : 'refinements';
  const [measure, name, sumOf] = MEASURES.find(([it]) => it === (chosen ?? first)) ?? MEASURES[0]!;
  const frame = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<string>();
  const width = useWidth(frame);
  const known = new Map(of.data.map((it) => [it.group.day ?? '', it]));
  const start = Math.max(Date.parse(of.from), Date.parse(of.to) - (KEPT_DAYS - 1) * DAY_MS);
  const days = Array.from({ length: Math.round((Date.parse(of.to) - start) / DAY_MS) + 1 }, (_, at) => dayOf(start + at * DAY_MS));
  const most = Math.max(...of.data.map(sumOf), 0) || 1;
  const x = scaleLinear([0, days.length], [MARGIN.left, Math.max(MARGIN.left + 40, width - MARGIN.right)]);
  const y = scaleLinear([0, most], [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(3);
  const text = (value: number) => (measure === 'cost' ? costText(value) : value.toLocaleString('en', { notation: 'compact' }));
  const every = Math.ceil(days.length / Math.max(2, Math.floor(width / 90)));
  const bar = Math.max(1, x(1) - x(0) - Math.min(3, (x(1) - x(0)) / 4));
  return (
    <section>
      <div class="toolbar">
        <h2>{name} a day</h2>
        <Choices label="Bars show" of={MEASURES.map(([value, title]) => [value, title])} chosen={measure} choose={(it) => setQuery({ show: it })} />
      </div>
      <div class="plot days" ref={frame}>
        <svg width={width} height={HEIGHT} role="img" aria-label={`${name} a day, ${of.from} to ${of.to}; the most on one day is ${text(most)}. The table by day has the figures.`}>
          <defs>
            <pattern id="hatched" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="2" height="4" />
            </pattern>
          </defs>
          {y.ticks(3).filter((tick) => measure === 'cost' || Number.isInteger(tick)).map((tick) => (
            <g>
              <line class="grid" x1={MARGIN.left} x2={width - MARGIN.right} y1={y(tick)} y2={y(tick)} />
              <text x={MARGIN.left - 6} y={y(tick)} dy="0.32em" text-anchor="end">
                {text(tick)}
              </text>
            </g>
          ))}
          {days.map((day, at) => {
            const row = known.get(day);
            const [whole, part] = row ? [sumOf(row), sumOf(row.not_passed)] : [0, 0];
            return (
              <g onPointerEnter={() => setPointed(`${dayText(day)}: ${text(whole)}${part > 0 ? `, of which ${text(part)} did not pass` : ''}`)}>
                <rect class="day" x={x(at)} width={x(1) - x(0)} y={MARGIN.top} height={HEIGHT - MARGIN.top - MARGIN.bottom} />
                <rect class="sum" x={x(at)} width={bar} y={y(whole)} height={y(part) - y(whole)} />
                <rect class="sum part" x={x(at)} width={bar} y={y(part)} height={y(0) - y(part)} fill="url(#hatched)" />
                {at % every === 0 && x(at) < width - 50 && (
                  <text x={x(at)} y={HEIGHT - 8}>
                    {dayText(day)}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      </div>
      <p class="quiet">
        <span class="key sum" /> passed <span class="key sum part" /> did not pass. {pointed ? <strong>{pointed}</strong> : 'Days of UTC, on which refinements ended.'}
      </p>
    </section>
  );
}

const dayText = (day: string): string => new Date(day).toLocaleDateString('en', { day: 'numeric', month: 'short', timeZone: 'UTC' });

function columnsOf(by: string, nameOf: (id: string) => string): Column<Row>[] {
  const idOf = (of: Row) => (of.group as Record<string, string | null>)[by] ?? null;
  const title = GROUPINGS.find(([it]) => it === by)?.[1] ?? 'Tenant';
  return [
    { name: title, value: (of) => nameOf(idOf(of) ?? ''), draw: (of) => <Group by={by} id={idOf(of)} nameOf={nameOf} /> },
    ...(by === 'key' ? [{ name: 'Id of the key', value: idOf, only: 'file' as const }] : []),
    { name: 'Cost (USD)', value: (of) => of.cost_usd, draw: moneyText, isNumber: true },
    { name: 'Did not pass (USD)', value: (of) => of.not_passed.cost_usd, draw: (of) => moneyText(of.not_passed), isNumber: true },
    { name: 'Refinements', value: (of) => of.refinements, isNumber: true },
    { name: 'Calls', value: (of) => of.calls, isNumber: true },
    { name: 'Input tokens', value: (of) => of.input_tokens, isNumber: true },
    { name: 'Output tokens', value: (of) => of.output_tokens, isNumber: true },
  ];
}

function Group({ by, id, nameOf }: { by: string; id: string | null; nameOf: (id: string) => string }) {
  if (!id) return <span class="quiet">{by === 'key' ? 'without a key' : 'unknown'}</span>;
  if (by === 'key' && id.startsWith('key_')) return <Link href={hrefOf('keys')} title={id}><Name of={nameOf(id)} /></Link>;
  if (by === 'tenant') return <Link href={hrefOf('tenants')}>{id}</Link>;
  return <Name of={by === 'outcome' || by === 'strategy' ? words(id) : id} />;
}
