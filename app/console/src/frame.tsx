/** The frame of every page: who is signed in, where one can go, and what the address names. */
import { useEffect, useState } from 'preact/hooks';
import { type Connection, hone, readToken, root, type Session, session, signOut, watchConnection } from './api.js';
import { useKeptFocus } from './focus.js';
import { BatchList, BatchPage } from './batches.js';
import { RefinementList } from './list.js';
import { Failure, Loading, Name } from './parts.js';
import { RefinementPage } from './refinement.js';
import { hrefOf, Link, type Route, useRoute } from './router.js';
import { SignIn } from './sign_in.js';
import { SubmitPage } from './submit.js';

export function Console() {
  useKeptFocus();
  const route = useRoute();
  const [signedIn, setSignedIn] = useState<Session | null>();
  const [failure, setFailure] = useState<unknown>();
  const connection = useConnection();
  const look = () =>
    session().then((it) => {
      setSignedIn(it);
      setFailure(undefined);
    }, setFailure);
  useEffect(() => void look(), []);
  useEffect(() => {
    if (connection === 'there' && failure !== undefined) void look();
  }, [connection]);
  const leave = async () => {
    await signOut().then(() => setSignedIn(null), setFailure);
  };
  // What was typed stays in the page, which is shown again after signing in.
  const isExpired = Boolean(signedIn) && !readToken && connection === 'signed out';
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header>
        <Link class="brand" href={hrefOf()}>
          Hone
        </Link>
        {signedIn && !readToken && <Navigation at={route.path[0] ?? ''} />}
        {signedIn?.key_id && (
          <span class="who">
            <Name of={signedIn.tenant} /> <button onClick={leave}>Sign out</button>
          </span>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {failure !== undefined && <Failure of={failure} />}
        {signedIn === undefined && failure === undefined && <Loading />}
        {signedIn === null && <SignIn done={look} />}
        <p role="status" class={connection === 'away' ? 'notice' : 'unseen'}>
          {connection === 'away' && 'The server does not answer. What you see may be old; the page goes on by itself.'}
        </p>
        {isExpired && <SignIn done={look} isAgain />}
        {signedIn && (
          <div key={signedIn.tenant} hidden={isExpired}>
            <Page route={route} session={signedIn} />
          </div>
        )}
      </main>
    </>
  );
}

/** The fragment stays as it is: it may be the token of a read link. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

const ASKED_AGAIN_MS = 3_000;

/** How the server answers; one that is away is asked until it is back. */
function useConnection(): Connection {
  const [connection, setConnection] = useState<Connection>('there');
  useEffect(() => watchConnection(setConnection), []);
  useEffect(() => {
    if (connection !== 'away') return;
    const timer = setInterval(() => void hone.request('/console/session').catch(() => undefined), ASKED_AGAIN_MS);
    return () => clearInterval(timer);
  }, [connection]);
  return connection;
}

const PLACES: [string, string][] = [
  ['', 'Refinements'],
  ['batches', 'Batches'],
  ['new', 'New'],
];

function Navigation({ at }: { at: string }) {
  return (
    <nav aria-label="Console">
      {PLACES.map(([path, title]) => (
        <Link
          href={path ? hrefOf(path) : hrefOf()}
          aria-current={at === path || (path === '' && at === 'refinements') ? 'page' : undefined}
        >
          {title}
        </Link>
      ))}
      <a href={`${root}/docs`}>API</a>
    </nav>
  );
}

/** What the address names. */
function Page({ route, session }: { route: Route; session: Session }) {
  const [place = '', id, part] = route.path;
  if (place === 'refinements' && id) return <RefinementPage key={id} id={id} part={part ?? ''} session={session} />;
  if (place === '' || place === 'refinements') return <RefinementList query={route.query} session={session} />;
  if (place === 'batches' && id) return <BatchPage key={id} id={id} session={session} />;
  if (place === 'batches') return <BatchList query={route.query} />;
  if (place === 'new') return <SubmitPage from={route.query.get('from')} session={session} />;
  return (
    <>
      <h1>Nothing here</h1>
      <p>
        The console has no page at this address. <Link href={hrefOf()}>All refinements</Link>
      </p>
    </>
  );
}
