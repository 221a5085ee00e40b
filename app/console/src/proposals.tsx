/** Proposals to change a preset: a button, the proof in words and numbers, what changes, and the decision of a person. */
import { ApiError, type schema } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { jsonOf } from './code.js';
import { Ask } from './dialog.js';
import { costText, Failure, Name, scoreText, useLoaded, useRepeated, When } from './parts.js';

type Proposal = schema.Proposal;
const UNDER_WAY = ['writing', 'playing', 'judging'];

/** A mean has more digits than it is worth. */
const rounded = (score: number | null): string => scoreText(score === null ? score : Math.round(score * 1000) / 1000);

/** Shows nothing where the server lacks the extra `learn`. */
export function Proposals({ of, session, changed }: { of: string; session: Session; changed: () => void }) {
  const at = `/v1/presets/${encodeURIComponent(of)}/proposals`;
  const { value, failure, reload } = useLoaded((signal) => hone.request<schema.ProposalList>(at, { signal }), [at]);
  const [refused, setRefused] = useState<unknown>();
  const [asked, setAsked] = useState<Proposal>();
  const isGoing = value?.data.some((it) => UNDER_WAY.includes(it.status)) ?? false;
  useRepeated(() => isGoing && reload());
  if (failure instanceof ApiError && failure.status === 404) return null;
  const maySubmit = session.scopes.includes('submit');
  const propose = async () => {
    setRefused(undefined);
    try {
      await hone.request(at, { method: 'POST' });
    } catch (thrown) {
      setRefused(thrown);
    }
    reload();
  };
  const accept = async (it: Proposal) => {
    await hone.request(`${at}/${it.id}/accept`, { method: 'POST', json: { anyway: !it.proof?.significant } });
    return '';
  };
  return (
    <section aria-label={`Proposals for ${of}`}>
      {failure !== undefined && <Failure of={failure} />}
      {maySubmit && !isGoing && <button onClick={() => void propose()}>Propose a change by what reviewers said</button>}
      {refused !== undefined && <Failure of={refused} />}
      {value?.data.map((it) => (
        <details key={it.id} open={it.status === 'decided' || UNDER_WAY.includes(it.status)}>
          <summary>
            Proposal of <When at={it.created_at} />: {it.status}
            {it.proof && !it.proof.significant && ', without a significant gain'}
          </summary>
          <Finding of={it} />
          {maySubmit && it.status === 'decided' && (
            <button class={it.proof?.significant ? 'main' : ''} aria-haspopup="dialog" onClick={() => setAsked(it)}>
              Accept…
            </button>
          )}
        </details>
      ))}
      {asked && (
        <Ask
          title="Change the preset?"
          label="Change it"
          isDanger={!asked.proof?.significant}
          run={() => accept(asked)}
          done={() => {
            reload();
            changed();
          }}
          close={() => setAsked(undefined)}
        >
          <p>
            <Name of={of} /> gets the proposed criteria and instructions. {!asked.proof?.significant && 'No significant gain was shown.'}
          </p>
        </Ask>
      )}
    </section>
  );
}

function Finding({ of }: { of: Proposal }) {
  const { proof, after } = of;
  return (
    <>
      {of.error && <p class="error">{of.error}</p>}
      <ul>
        {of.why?.map((it) => (
          <li key={it.change}>
            <Name of={it.change} /> <span class="quiet">(remarks {it.evidence.join(', ')})</span>
          </li>
        ))}
      </ul>
      {after && <Changes before={jsonOf(of.before, 1)} after={jsonOf(after, 1)} />}
      {proof && (
        <>
          <p>{proof.said}</p>
          <p class="quiet">
            score {rounded(proof.present.score)} → {rounded(proof.proposed.score)}, {proof.wins} won, {proof.losses} lost, {proof.ties} tied of{' '}
            {proof.texts} texts; {costText(proof.present.cost_usd)} → {costText(proof.proposed.cost_usd)} a text
          </p>
        </>
      )}
      <p class="quiet">
        spent so far: {of.spent.calls} calls, {costText(of.spent.cost_usd)}
      </p>
    </>
  );
}

/** The lines of a setting that go, and those that come. */
function Changes({ before, after }: { before: string; after: string }) {
  const [old, now] = [before.split('\n'), after.split('\n')];
  const lines = [
    ...old.filter((it) => !now.includes(it)).map((it) => <del>{`- ${it}\n`}</del>),
    ...now.filter((it) => !old.includes(it)).map((it) => <ins>{`+ ${it}\n`}</ins>),
  ];
  return (
    <pre class="text code" tabIndex={0} aria-label="What changes">
      {lines.length ? lines : 'Nothing changes.'}
    </pre>
  );
}
