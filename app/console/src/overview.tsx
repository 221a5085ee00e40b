/** A refinement at a glance: scores, what goes on and what went on when, and the result. */
import type { Snapshot } from 'hone';
import { Chart } from './chart.js';
import { Copy, Name, scoreText, Text } from './parts.js';
import type { View } from './refinement.js';
import { TimelineView } from './timeline.js';
import { SCORES_FROM } from './words.js';

export function Overview({ snapshot, live }: View) {
  const isGoing = snapshot.ended_at === null;
  return (
    <>
      <Chart live={live} snapshot={snapshot} />
      {isGoing && <Writing of={live.texts} />}
      {snapshot.result && <Result of={snapshot.result} id={snapshot.id} />}
      <TimelineView live={live} isGoing={isGoing} />
    </>
  );
}

/** The texts that models are writing now. */
function Writing({ of }: { of: Map<string, string> }) {
  if (!of.size) return null;
  return (
    <section>
      <h2>Being written</h2>
      {[...of].map(([key, text]) => (
        <section key={key}>
          <h3>
            {key} <small class="quiet">{text.length.toLocaleString('en')} characters</small>
          </h3>
          <Text of={text} isEnd />
        </section>
      ))}
    </section>
  );
}

const VERDICTS: Record<string, string> = {
  better: 'better than the draft it started from, in both orders',
  worse: 'worse than the draft it started from, in both orders',
  tie: 'neither better nor worse than the draft it started from',
  undecided: 'undecided: which of the two is better depended on their order',
};

function Result({ of, id }: { of: NonNullable<Snapshot['result']>; id: string }) {
  const outputs = Object.entries(of.outputs ?? {});
  return (
    <section>
      <h2>Result</h2>
      <p class="quiet">
        {of.path}, score {scoreText(of.score)}: {SCORES_FROM[of.score_from ?? 'critique'] ?? of.score_from}.
        {of.comparison && ` Compared: ${VERDICTS[of.comparison.verdict] ?? of.comparison.verdict}.`}
      </p>
      <p class="actions">
        <Copy text={of.draft} label="Copy the text" />
      </p>
      <Text of={of.draft} />
      {outputs.map(([name, text]) => (
        <section key={name}>
          <h3>
            <Name of={name} />
          </h3>
          <Copy text={text} label={<>Copy <Name of={name} /></>} />
          <Text of={text} />
        </section>
      ))}
    </section>
  );
}
