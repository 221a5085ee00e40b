import { useState } from 'preact/hooks';
import { provider, root, signIn } from './api.js';
import { Failure, Name } from './parts.js';
import { useTitle } from './title.js';

/** Asks for an API key. The server answers with a cookie that no script can read. */
export function SignIn({ done, isAgain }: { done: () => void; isAgain?: 'ended' | 'replaced' }) {
  const [key, setKey] = useState('');
  const [failure, setFailure] = useState<unknown>();
  useTitle(isAgain ? 'Sign in again' : 'Sign in');
  const submit = (event: Event) => {
    event.preventDefault();
    setFailure(undefined);
    signIn(key.trim()).then(done, setFailure);
  };
  return (
    <form class="sign-in" onSubmit={submit}>
      <h1>{isAgain ? 'Sign in again' : 'Sign in'}</h1>
      {isAgain === 'ended' && <p role="alert">The session has ended. Nothing that you typed is lost.</p>}
      {isAgain === 'replaced' && <p>Or go on here with the key of this page.</p>}
      {provider && (
        <p>
          <a class="button main large" href={`${root}/console/oidc?to=${encodeURIComponent(location.pathname.slice(root.length) + location.search)}`}>
            Sign in with <Name of={provider} />
          </a>
        </p>
      )}
      <label>
        {provider ? 'Or an API key' : 'API key'}
        <input
          type="password"
          name="key"
          autoComplete="off"
          autoFocus={!provider}
          required
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <p class="quiet">
        An operator makes one with <code>hone keys create</code>. This browser keeps a session of 12 hours, not the key.
      </p>
      {failure !== undefined && <Failure of={failure} />}
      <button class={provider ? '' : 'main'}>Sign in</button>
    </form>
  );
}
