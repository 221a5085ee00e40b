/** Scores over the iterations: the total, each criterion, the estimate with its error, and the threshold. */
import { scaleLinear } from 'd3-scale';
import { area, line } from 'd3-shape';
import type { Snapshot } from 'hone';
import { useMemo, useRef, useState } from 'preact/hooks';
import type { Journaled, Live } from './live.js';
import { Name, scoreText, useWidth } from './parts.js';
import { SCORES_FROM } from './words.js';

type Judged = Extract<Journaled, { type: 'iteration.completed' }>['data'];
type Estimate = NonNullable<NonNullable<Snapshot['result']>['estimate']>;

/** A judged draft; `estimate` is of the best draft at that time. */
export interface Point extends Judged {
  isStopped: boolean;
  estimate?: Estimate | null;
}

/** The search of an iteration; the outermost has an empty path. */
export const searchOf = (path: string): string => path.slice(0, path.lastIndexOf('iterations/')).replace(/\/$/, '');

/** Reads judgements from events, each once. A retry voids those that the steps made that it repeats. */
export class Judgements {
  #read = 0;
  #isStopped = false;
  #points = new Map<string, Point>();

  readAll(events: Journaled[]): Map<string, Point> {
    for (; this.#read < events.length; this.#read++) {
      const event = events[this.#read] as Journaled;
      if (event.type === 'iteration.completed') {
        this.#points.set(event.data.path, { ...event.data, isStopped: this.#isStopped });
      } else if (event.type === 'refinement.stopping') this.#isStopped = true;
      else if (event.type === 'refinement.retried') {
        const { voided } = event.data;
        for (const [path, it] of this.#points) {
          if (it.isStopped || voided.some((key) => key.startsWith(`${path}/`))) this.#points.delete(path);
        }
        this.#isStopped = false;
      }
    }
    return this.#points;
  }
}

/** The chart of one search; a choice where there are several. */
export function Chart({ live, snapshot }: { live: Live; snapshot: Snapshot }) {
  const reader = useRef<Judgements>(undefined);
  reader.current ??= new Judgements();
  const [chosen, setChosen] = useState<string>();
  const judgements = reader.current;
  // The page is drawn ten times a second while a model writes; what was judged changes with an event.
  const searches = useMemo(() => bySearch(judgements.readAll(live.events).values()), [live.events.length]);
  const names = [...searches.keys()];
  const search = names.find((it) => it === chosen) ?? names[0] ?? '';
  const points = searches.get(search) ?? [];
  const drawn = useMemo(
    () => points.length > 0 && (
      <>
        <Drawing key={search} of={points} threshold={snapshot.threshold} snapshot={snapshot} isWhole={search === ''} />
        <AsTable of={points} />
      </>
    ),
    [points, snapshot],
  );
  if (![...searches.values()].some((them) => them.some((it) => it.score !== null))) return null;
  return (
    <section class="chart">
      <h2>Scores</h2>
      {names.length > 1 && (
        <label>
          Search
          <select value={search} onChange={(event) => setChosen(event.currentTarget.value)}>
            {names.map((name) => (
              <option value={name}>
                {name || 'the whole'} ({searches.get(name)?.length})
              </option>
            ))}
          </select>
        </label>
      )}
      {drawn}
    </section>
  );
}

/** Return the points of each search in their order, by the path of the search. */
function bySearch(all: Iterable<Point>): Map<string, Point[]> {
  const found = new Map<string, Point[]>();
  for (const it of all) {
    const search = searchOf(it.path);
    const known = found.get(search);
    if (known) known.push(it);
    else found.set(search, [it]);
  }
  for (const points of found.values()) points.sort((one, other) => one.iteration - other.iteration);
  return new Map([...found].sort(([one], [other]) => one.localeCompare(other, 'en', { numeric: true })));
}

const HEIGHT = 260;
const MARGIN = { top: 14, right: 16, bottom: 26, left: 40 };
const TICKS_AT_MOST = 20;

interface Series {
  name: string;
  values: (number | null)[];
}

const seriesOf = (points: Point[]): Series[] => {
  const names = new Set(points.flatMap((it) => it.scores.map((of) => of.criterion)));
  const scores = points.map((it) => new Map(it.scores.map((of) => [of.criterion, of.score])));
  return [...names].map((name) => ({ name, values: scores.map((it) => it.get(name) ?? null) }));
};

interface Drawn {
  of: Point[];
  threshold: number;
  snapshot: Snapshot;
  isWhole: boolean;
}

function Drawing({ of: points, threshold, snapshot, isWhole }: Drawn) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const [chosen, setChosen] = useState<number>();
  const [marked, setMarked] = useState<string>();
  const [isAll, setAll] = useState(false);
  const series = seriesOf(points);
  const best = bestOf(points);
  const at = Math.min(chosen ?? points.indexOf(best), points.length - 1);
  const shown = points[at] as Point;
  const bands = points.map((it) => estimateOf(it, snapshot, isWhole));
  const lowest = Math.min(
    threshold,
    ...points.map((it) => it.score ?? 1),
    ...series.flatMap((it) => it.values.map((value) => value ?? 1)),
    ...bands.map((it) => (it ? it.value - it.error : 1)),
  );
  const right = Math.max(MARGIN.left + 40, width - MARGIN.right);
  const x = scaleLinear([0, Math.max(1, points.length - 1)], [MARGIN.left + 12, right - 12]);
  const y = scaleLinear([Math.max(0, Math.floor(10 * lowest - 0.5) / 10), 1], [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const path = line<number | null>()
    .defined((it) => it !== null)
    .x((_, index) => x(index))
    .y((it) => y(it ?? 0));
  const band = area<Estimate | null>()
    .defined((it) => it !== null)
    .x((_, index) => x(index))
    .y0((it) => y(Math.max(0, (it?.value ?? 0) - (it?.error ?? 0))))
    .y1((it) => y(Math.min(1, (it?.value ?? 0) + (it?.error ?? 0))));
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -points.length, End: points.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setChosen(Math.min(points.length - 1, Math.max(0, at + step)));
  };
  const point = (event: PointerEvent) => {
    const left = frame.current?.getBoundingClientRect().left ?? 0;
    setChosen(Math.min(points.length - 1, Math.max(0, Math.round(x.invert(event.clientX - left)))));
  };
  const every = Math.ceil(points.length / Math.min(TICKS_AT_MOST, Math.max(2, width / 40)));
  return (
    <>
      <div
        class="plot"
        ref={frame}
        role="slider"
        tabIndex={0}
        aria-label="Iteration"
        aria-valuemin={0}
        aria-valuemax={points.length - 1}
        aria-valuenow={at}
        aria-valuetext={inWords(shown, shown === best)}
        onKeyDown={move}
        onPointerMove={point}
        onPointerDown={point}
      >
        <svg width={width} height={HEIGHT} aria-hidden="true">
          {y.ticks(5).map((tick) => (
            <g>
              <line class="grid" x1={MARGIN.left} x2={right} y1={y(tick)} y2={y(tick)} />
              <text x={MARGIN.left - 6} y={y(tick)} dy="0.32em" text-anchor="end">
                {tick.toFixed(1)}
              </text>
            </g>
          ))}
          {points.map(
            (it, index) =>
              index % every === 0 && (
                <text x={x(index)} y={HEIGHT - 8} text-anchor="middle">
                  {it.iteration}
                </text>
              ),
          )}
          <line class="cursor" x1={x(at)} x2={x(at)} y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />
          {bands.some(Boolean) && (
            <>
              <path class="band" d={band(bands) ?? ''} />
              <path class="estimate" d={path(bands.map((it) => it?.value ?? null)) ?? ''} />
              {bands.map(
                (it, index) =>
                  it && (
                    <path
                      class="error"
                      d={`M${x(index)},${y(Math.max(0, it.value - it.error))}V${y(Math.min(1, it.value + it.error))}`}
                    />
                  ),
              )}
            </>
          )}
          <line class="threshold" x1={MARGIN.left} x2={right} y1={y(threshold)} y2={y(threshold)} />
          {series.map((it, index) => (
            <g class={`criterion hue${index % HUES} ${marked === it.name ? 'marked' : marked ? 'faint' : ''}`}>
              <path d={path(it.values) ?? ''} stroke-dasharray={DASHES[Math.floor(index / HUES) % DASHES.length]} />
              {it.values.map((value, at) => value !== null && <circle cx={x(at)} cy={y(value)} r={2.5} />)}
            </g>
          ))}
          <path class="score" d={path(points.map((it) => it.score)) ?? ''} />
          {points.map(
            (it, index) =>
              it.score !== null && <circle class={`score ${it.passed ? 'passed' : ''}`} cx={x(index)} cy={y(it.score)} r={4.5} />,
          )}
          {best.score !== null && (
            <circle class="best" cx={x(points.indexOf(best))} cy={y(best.score)} r={9} />
          )}
        </svg>
      </div>
      <Values of={shown} isBest={shown === best} estimate={bands[at] ?? null} threshold={threshold} most={isAll ? Infinity : FEW} />
      <ul class="legend">
        <li>
          <i class="key score" aria-hidden="true" /> score (filled: passed; circled: best)
        </li>
        <li>
          <i class="key threshold" aria-hidden="true" /> threshold {isWhole ? '' : 'of the whole '}
          {scoreText(threshold)}
        </li>
        {bands.some(Boolean) && (
          <li>
            <i class="key estimate" aria-hidden="true" /> estimate of the best, ± its error
          </li>
        )}
        {series.slice(0, isAll ? undefined : FEW).map((it, index) => (
          <li key={it.name}>
            <button
              aria-pressed={marked === it.name}
              title="Emphasise this criterion"
              onClick={() => setMarked(marked === it.name ? undefined : it.name)}
            >
              <svg class={`criterion hue${index % HUES}`} width="26" height="8" aria-hidden="true">
                <path d="M0,4H26" stroke-dasharray={DASHES[Math.floor(index / HUES) % DASHES.length]} />
              </svg>{' '}
              <Name of={it.name} />
            </button>
          </li>
        ))}
        {series.length > FEW && (
          <li>
            <button aria-expanded={isAll} onClick={() => setAll(!isAll)}>
              {isAll ? 'Fewer criteria' : `All ${series.length} criteria`}
            </button>
          </li>
        )}
      </ul>
    </>
  );
}

/** Criteria whose names and values are shown at first: twenty fill a phone. */
const FEW = 6;
const HUES = 7;
const DASHES = ['', '6 3', '2 3'];

/** The estimate of the best draft after an iteration; of older journals only that of the result is known. */
function estimateOf(it: Point, { result }: Snapshot, isWhole: boolean): Estimate | null {
  if (it.estimate) return it.estimate;
  return isWhole && result?.path === it.path ? (result.estimate ?? null) : null;
}

/** The best draft of a search, as its last judgement said. */
function bestOf(points: Point[]): Point {
  const last = points.reduce((one, other) => (other.iteration >= one.iteration ? other : one));
  return points.find((it) => it.path === last.best.path) ?? last;
}

function inWords(it: Point, isBest: boolean): string {
  const criteria = it.scores.map((of) => `${of.criterion} ${scoreText(of.score)}`).join(', ');
  return `Iteration ${it.iteration}${isBest ? ', the best' : ''}: score ${scoreText(it.score)}, ${it.passed ? 'passed' : 'not passed'}; ${criteria}`;
}

interface Valued {
  of: Point;
  isBest: boolean;
  estimate: Estimate | null;
  threshold: number;
  /** How many criteria at most. */
  most: number;
}

/** The values of the iteration under the pointer, or chosen with the arrow keys. */
function Values({ of, isBest, estimate, threshold, most }: Valued) {
  return (
    <div class="values">
      <strong>Iteration {of.iteration}</strong> {isBest && '(the best) '}
      <span>
        score <b>{scoreText(of.score)}</b>
        {of.score_from !== 'critique' && `, ${SCORES_FROM[of.score_from ?? ''] ?? of.score_from}`}
      </span>
      <span>{of.passed ? 'passed' : of.score !== null && of.score >= threshold ? 'not passed in spite of its score' : 'not passed'}</span>
      {estimate && (
        <span>
          estimate of the best {scoreText(estimate.value)} ± {scoreText(estimate.error)}
        </span>
      )}
      {of.scores.slice(0, most).map((it) => (
        <span title={it.reason}>
          <Name of={it.criterion} /> {scoreText(it.score)}
          {it.spread != null && ` (spread ${scoreText(it.spread)})`}
        </span>
      ))}
      {of.findings.length > 0 && <span>findings {of.findings.length}</span>}
    </div>
  );
}

function AsTable({ of: points }: { of: Point[] }) {
  const [isOpen, setOpen] = useState(false);
  const names = seriesOf(points);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen && (
        <div class="wide" tabIndex={0} role="region" aria-label="Scores as a table">
          <table>
            <thead>
              <tr>
                <th>Iteration</th>
                <th>Score</th>
                {names.map((it) => (
                  <th>
                    <Name of={it.name} />
                  </th>
                ))}
                <th>Passed</th>
                <th>Findings</th>
                <th>Revised from</th>
              </tr>
            </thead>
            <tbody>
              {points.map((it, index) => (
                <tr>
                  <th scope="row">
                    {it.iteration}
                    {it === bestOf(points) && ' (best)'}
                  </th>
                  <td>{scoreText(it.score)}</td>
                  {names.map((of) => (
                    <td>{scoreText(of.values[index])}</td>
                  ))}
                  <td>{it.passed ? 'yes' : 'no'}</td>
                  <td>{it.findings.length}</td>
                  <td>{it.parent ?? '–'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
