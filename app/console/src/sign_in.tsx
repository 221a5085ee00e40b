import { useState } from 'preact/hooks';
import { signIn } from './api.js';
import { Failure } from './parts.js';
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
      <label>
        API key
        <input
          type="password"
          name="key"
          autoComplete="off"
          autoFocus
          required
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <p class="quiet">
        An operator makes one with <code>hone keys create</code>. This browser keeps a session of 12 hours, not the key.
      </p>
      {failure !== undefined && <Failure of={failure} />}
      <button class="main">Sign in</button>
    </form>
  );
}
