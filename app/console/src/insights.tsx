/** What raised the scores: by strategy, model, critic, criterion and kind of step, with an interval each. */
import { scaleLinear } from 'd3-scale';
import type { schema } from 'hone';
import { hone } from './api.js';
import { type Column, Listing } from './table.js';
import { Choices, costText, Failure, Loading, Name, secondsText, useLoaded, useRepeated } from './parts.js';
import { hrefOf, Link, setQuery } from './router.js';
import { useTitle } from './title.js';

type Insight = schema.Insight;

const DIMENSIONS: [string, string][] = [
  ['strategy', 'Strategies'],
  ['model', 'Models that write'],
  ['critic', 'Models that judge'],
  ['criterion', 'Criteria'],
  ['step', 'Steps'],
];

export function InsightsPage({ query }: { query: URLSearchParams }) {
  const by = DIMENSIONS.find(([it]) => it === query.get('by'))?.[0] ?? 'strategy';
  const { value, failure, repeat } = useLoaded(
    (signal) => hone.request<schema.InsightList>('/v1/statistics', { query: { of: 'insights', by, limit: '100' }, signal }),
    [by],
  );
  useRepeated(() => value?.data.length || repeat()); // the first ones come a second after an ending
  useTitle('Insights', DIMENSIONS.find(([it]) => it === by)?.[1]);
  return (
    <>
      <h1>What raised the scores</h1>
      <Choices label="Insights about" of={DIMENSIONS} chosen={by} choose={(it) => setQuery({ by: it })} />
      {failure !== undefined && <Failure of={failure} />}
      {!value && failure === undefined && <Loading />}
      {value && !value.data.length && <Nothing by={by} />}
      {value && value.data.length > 0 && (
        <>
          <p class="quiet">
            {by === 'strategy' ? 'A case is a refinement: its result compared with its first draft.' : 'A case is a draft, compared with the one that it came of.'}{' '}
            Intervals that overlap are no difference. Since {value.since}.
          </p>
          <Listing of={value.data} columns={columnsOf(value.data)} file={`hone-insights-by-${by}`} caption={`Gains by ${by}`} />
        </>
      )}
    </>
  );
}

function Nothing({ by }: { by: string }) {
  return (
    <div class="empty">
      <p>
        <strong>Nothing is known yet.</strong> Once refinements have ended with a score, this page says by how much each of these raised it, and at what cost.
        {by === 'criterion' && ' Criteria count that a request names; those that a model lists do not.'}
      </p>
      <p>
        <Link href={hrefOf()}>Refine a text</Link>
      </p>
    </div>
  );
}

const columnsOf = (all: readonly Insight[]): Column<Insight>[] => {
  const ends = all.flatMap((it) => [it.gain.mean, it.gain.low ?? it.gain.mean, it.gain.high ?? it.gain.mean]);
  const x = scaleLinear([Math.min(0, ...ends), Math.max(0.1, ...ends)], [6, 194]);
  return [
    { name: 'Name', value: (of) => of.value, draw: (of) => <strong><Name of={of.value} /></strong> },
    { name: 'Gain', value: (of) => of.gain.mean, draw: (of) => gainText(of.gain.mean), isNumber: true },
    { name: '95 % interval', value: () => '', draw: (of) => <Interval of={of} x={x} />, only: 'page' },
    { name: 'Gain from', value: (of) => of.gain.low, only: 'file' },
    { name: 'Gain to', value: (of) => of.gain.high, only: 'file' },
    { name: 'Cases', value: (of) => of.cases, isNumber: true },
    { name: 'Kept', value: (of) => of.kept, draw: (of) => `${Math.round(100 * of.kept)} %`, isNumber: true },
    { name: 'Cost each (USD)', value: (of) => of.mean_usage.cost_usd, draw: (of) => (of.mean_usage.cost_usd === null ? 'unknown' : costText(of.mean_usage.cost_usd)), isNumber: true },
    { name: 'Seconds each', value: (of) => of.mean_usage.seconds, draw: (of) => secondsText(of.mean_usage.seconds), isNumber: true },
  ];
};

const gainText = (gain: number): string => `${gain < 0 ? '−' : '+'}${Math.abs(gain).toFixed(3)}`;

/** The mean, its interval, and where nothing is gained. */
function Interval({ of, x }: { of: Insight; x: (value: number) => number }) {
  const { mean, low, high } = of.gain;
  return (
    <span class="interval">
      <svg width={200} height={16} viewBox="0 0 200 16" aria-hidden="true">
        <line class="grid" x1={x(0)} x2={x(0)} y1={0} y2={16} />
        {low !== null && high !== null && <line x1={x(low)} x2={x(high)} y1={8} y2={8} />}
        <circle cx={x(mean)} cy={8} r={4} />
      </svg>{' '}
      {low === null || high === null ? 'one refinement alone' : `${gainText(low)} to ${gainText(high)}`}
    </span>
  );
}
