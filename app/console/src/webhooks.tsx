/** The webhooks of a refinement or a batch, with every attempt; each can be sent again. */
import type { schema } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { Failure, Name, useLoaded, useRepeated, When } from './parts.js';
import { hrefOf, Link } from './router.js';

/** Shows nothing where there is no webhook. */
export function Deliveries({ of, session }: { of: string; session: Session }) {
  const { value, failure, reload } = useLoaded((signal) => hone.request<schema.DeliveryList>(`${of}/webhooks`, { signal }), [of]);
  const [said, setSaid] = useState('');
  const [refused, setRefused] = useState<unknown>();
  useRepeated(() => value?.data.some((it) => it.status === 'pending') && reload());
  const again = async (id: string) => {
    setSaid('');
    setRefused(undefined);
    try {
      await hone.request(`${of}/webhooks/${id}/redeliver`, { method: 'POST' });
      setSaid('It is sent again.');
    } catch (thrown) {
      setRefused(thrown);
    }
    reload();
  };
  if (failure !== undefined) return <Failure of={failure} />;
  if (!value?.data.length) return null;
  return (
    <section>
      <h2>Webhooks</h2>
      <ul>
        {value.data.map((it) => (
          <li key={it.id}>
            <strong>{it.type}</strong> to <Name of={it.url} />: {it.status}
            {it.is_paused && ', waits because the endpoint has failed too often'}
            {it.status === 'pending' && it.next_attempt_at && (
              <>
                , next attempt <When at={it.next_attempt_at} />
              </>
            )}{' '}
            {session.scopes.includes('submit') && <button onClick={() => void again(it.id)}>Send it again</button>}
            <ul>
              {it.attempts.map((attempt) => (
                <li>
                  <When at={attempt.at} />: {attempt.status ?? 'no answer'} <Name of={attempt.detail} />
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
      <p>
        <Link href={hrefOf('webhooks')}>All endpoints, and their secrets</Link>
      </p>
      <p role="status">{said}</p>
      {refused !== undefined && <Failure of={refused} />}
    </section>
  );
}
