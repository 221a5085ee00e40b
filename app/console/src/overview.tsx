/** A refinement at a glance: what is being written, and the result. */
import type { View } from './refinement.js';
import { Copy, Text } from './parts.js';

export function Overview({ snapshot, live }: View) {
  const { result } = snapshot;
  return (
    <>
      {[...live.texts].map(([key, text]) => (
        <section key={key}>
          <h2>Being written: {key}</h2>
          <Text of={text} isEnd />
        </section>
      ))}
      {result && (
        <section>
          <h2>Result</h2>
          <Copy text={result.draft} />
          <Text of={result.draft} />
          {Object.entries(result.outputs ?? {}).map(([name, text]) => (
            <section key={name}>
              <h3>{name}</h3>
              <Copy text={text} />
              <Text of={text} />
            </section>
          ))}
        </section>
      )}
    </>
  );
}
