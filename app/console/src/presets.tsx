/** Presets: named settings of requests, one of which may be that of the tenant by default. */
import type { schema } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { jsonOf } from './code.js';
import { Ask } from './dialog.js';
import { Failure, Loading, Name, useLoaded, When, words } from './parts.js';
import { Proposals } from './proposals.js';
import { hrefOf, Link } from './router.js';
import { withoutSecrets } from './secrets.js';
import { useTitle } from './title.js';

type Preset = schema.Preset;

export function PresetsPage({ session }: { session: Session }) {
  const { value, failure, reload } = useLoaded((signal) => hone.request<schema.PresetList>('/v1/presets', { signal }), []);
  const [asked, setAsked] = useState<Preset>();
  const [chosen, setChosen] = useState<Preset>();
  useTitle('Presets');
  const maySubmit = session.scopes.includes('submit');
  return (
    <>
      <h1>Presets</h1>
      {failure !== undefined && <Failure of={failure} />}
      {!value && failure === undefined && <Loading />}
      {value && !value.data.length && (
        <div class="empty">
          <p>
            <strong>There are no presets.</strong> A preset has a name and settings for texts of one kind: criteria, a strategy, limits. One named{' '}
            <code>default</code> applies to every text for which none is named.
          </p>
        </div>
      )}
      {maySubmit && (
        <p>
          <Link href={hrefOf('new')}>Make one</Link>: fill in the form, and save its settings.
        </p>
      )}
      {value?.data.map((it) => (
        <section class="preset" key={it.name}>
          <h2>
            <Name of={it.name} /> {it.name === DEFAULT && <small class="quiet">applies to every text for which none is named</small>}
          </h2>
          <p class="quiet">
            sets {Object.keys(it.request).map(words).join(', ') || 'nothing'}; changed <When at={it.updated_at} />
          </p>
          <details>
            <summary>Settings</summary>
            <pre class="text code" tabIndex={0} aria-label={`Settings of ${it.name}`}>
              {jsonOf(it.request as Record<string, unknown>, 2)}
            </pre>
          </details>
          {maySubmit && (
            <p class="actions">
              <Link href={`${hrefOf('new')}?preset=${encodeURIComponent(it.name)}`}>Refine a text with it</Link>
              <Link href={`${hrefOf('new')}?edit=${encodeURIComponent(it.name)}`}>Change its settings</Link>
              {it.name !== DEFAULT && (
                <button aria-haspopup="dialog" onClick={() => setChosen(it)}>
                  Use it by default…
                </button>
              )}
              <button class="danger" aria-haspopup="dialog" aria-label={`Delete ${it.name}`} onClick={() => setAsked(it)}>
                Delete…
              </button>
            </p>
          )}
          <Proposals of={it.name} session={session} changed={reload} />
        </section>
      ))}
      {asked && <Remove of={asked} done={reload} close={() => setAsked(undefined)} />}
      {chosen && <UseByDefault of={chosen} done={reload} close={() => setChosen(undefined)} />}
    </>
  );
}

/** The settings of the preset that has this name apply where a request names none. */
const DEFAULT = 'default';

function UseByDefault({ of, done, close }: { of: Preset; done: () => void; close: () => void }) {
  const run = async () => {
    if (withoutSecrets(of.request as Record<string, unknown>)[1])
      throw new Error(`It has secrets, which are shown to nobody: change its settings, fill them in again, and save them as “${DEFAULT}”.`);
    await hone.request(`/v1/presets/${DEFAULT}`, { method: 'PUT', json: of.request });
    return '';
  };
  return (
    <Ask title="Use its settings by default?" label="Use them" run={run} done={done} close={close}>
      <p>
        They are copied to the preset <code>{DEFAULT}</code>, in place of what it has, and apply to every text for which no preset is named.
      </p>
    </Ask>
  );
}

function Remove({ of, done, close }: { of: Preset; done: () => void; close: () => void }) {
  const run = async () => {
    await hone.request(`/v1/presets/${encodeURIComponent(of.name)}`, { method: 'DELETE' });
    return '';
  };
  return (
    <Ask title="Delete the preset?" label="Delete it" isDanger run={run} done={done} close={close}>
      <p>
        Texts can no longer be submitted with <Name of={of.name} />. What was made with it stays as it is.
      </p>
    </Ask>
  );
}
