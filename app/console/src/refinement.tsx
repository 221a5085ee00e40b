/** One refinement, live. */
import { useEffect } from 'preact/hooks';
import type { Session } from './api.js';
import { useRefinement } from './live.js';
import { Failure, Loading, Status, costText, scoreText, secondsText } from './parts.js';

export function RefinementPage({ id }: { id: string; part: string; session: Session }) {
  const { snapshot, failure, texts } = useRefinement(id);
  useEffect(() => {
    document.title = `${snapshot ? `${snapshot.status} – ` : ''}${id} – Hone`;
  }, [snapshot?.status]);
  if (!snapshot) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  const { usage, result } = snapshot;
  return (
    <>
      <h1>
        {id} <Status of={snapshot.status} />
      </h1>
      {failure !== undefined && <Failure of={failure} />}
      <p>
        Score {scoreText(snapshot.best?.score)} of {scoreText(snapshot.threshold)} · iteration {snapshot.iteration ?? 0} of{' '}
        {snapshot.max_iterations} · {usage.calls} calls · {costText(usage.cost_usd)} · {secondsText(usage.seconds ?? 0)}
        {snapshot.stop_reason && ` · ${snapshot.stop_reason}`}
      </p>
      {[...texts].map(([key, text]) => (
        <section>
          <h2>{key}</h2>
          <pre class="text">{text}</pre>
        </section>
      ))}
      {result && (
        <section>
          <h2>Result</h2>
          <pre class="text">{result.draft}</pre>
        </section>
      )}
    </>
  );
}
