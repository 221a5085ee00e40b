/** The frame of every page: who is signed in, where one can go, and what the address names. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { actAs, type Connection, hone, readToken, root, type Session, session, signOut, watchConnection, watchTabs } from './api.js';
import { useKeptFocus } from './focus.js';
import { BatchList, BatchPage } from './batches.js';
import { RefinementList } from './list.js';
import { Failure, Loading, Name } from './parts.js';
import { reading, watchReturns } from './reading.js';
import { RefinementPage } from './refinement.js';
import { hrefOf, Link, type Route, useRoute } from './router.js';
import { SignIn } from './sign_in.js';
import { SubmitPage } from './submit.js';
import { useTitle } from './title.js';

export function Console() {
  useKeptFocus();
  const route = useRoute();
  const [signedIn, setSignedIn] = useState<Session | null>();
  const [failure, setFailure] = useState<unknown>();
  const connection = useConnection();
  const [other, setOther] = useState<Session>();
  const shown = useRef<Session>(undefined);
  const show = (it: Session | null) => {
    if (it) actAs(it);
    shown.current = it ?? undefined;
    setSignedIn(it);
    setOther(undefined);
  };
  const [looks] = useState(() =>
    reading(
      session,
      (it) => {
        setFailure(undefined);
        show(it);
      },
      setFailure,
    ),
  );
  /** See whose session it is now: what another tab did must not change whom this page acts as. */
  const check = (isSignedOut: boolean) =>
    session().then((it) => {
      if (!it && !isSignedOut) return; // the session has ended: one signs in again, and nothing is lost
      if (it && shown.current && it.key_id !== shown.current.key_id) setOther(it);
      else show(it);
    }, () => undefined);
  useEffect(() => looks.ask(), []);
  useEffect(() => (readToken ? undefined : watchTabs(() => void check(true))), []);
  useEffect(() => (readToken ? undefined : watchReturns(() => void check(true))), []);
  useEffect(() => {
    if (connection === 'signed out' && shown.current && !readToken) void check(false);
  }, [connection]);
  const leave = async () => {
    await signOut().then(() => show(null), setFailure);
  };
  // What was typed stays in the page, which is shown again after signing in.
  const isExpired = Boolean(signedIn) && !readToken && (connection === 'signed out' || other !== undefined);
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
            <Name of={signedIn.tenant} /> {signedIn.key_id && <code>{signedIn.key_id}</code>} <button onClick={leave}>Sign out</button>
          </span>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {failure !== undefined && <Failure of={failure} />}
        {signedIn === undefined && failure === undefined && <Loading />}
        {signedIn === null && <SignIn done={looks.ask} />}
        <p role="status" class={connection === 'away' ? 'notice' : 'unseen'}>
          {connection === 'away' && 'The server does not answer. What you see may be old; the page goes on by itself.'}
        </p>
        {signedIn?.is_open && <NoKeys />}
        {isExpired && other && <Other of={other} former={signedIn?.key_id} />}
        {isExpired && <SignIn done={looks.ask} isAgain={other ? 'replaced' : 'ended'} />}
        {signedIn && (
          <div key={signedIn.tenant} hidden={isExpired}>
            <Page route={route} session={signedIn} />
          </div>
        )}
      </main>
    </>
  );
}

/** Said in place of everything else: the page has neither a token that works nor a reason to ask for a key. */
export function BrokenLink() {
  useTitle('The link is not complete');
  return (
    <main id="main">
      <h1>The link is not complete</h1>
      <p role="alert">Copy the whole link, with all that follows the “#”, or ask who sent it for another one.</p>
    </main>
  );
}

const LOOPBACK = /^(localhost|.*\.localhost|127\..*|\[::1\])$/;

/** Tells that anybody can use the server; the browser alone knows by which name it is reached. */
function NoKeys() {
  const isElsewhere = !LOOPBACK.test(location.hostname);
  return (
    <p class={isElsewhere ? 'notice' : 'quiet'} role={isElsewhere ? 'alert' : undefined}>
      This server has no API keys
      {isElsewhere ? `, and is reached as ${location.hostname}: everybody on that network can use it.` : ': nothing may stand before it, no proxy and no tunnel.'} Make
      one on its machine: <code>hone keys create --admin</code>
    </p>
  );
}

/** Tells that another tab has signed in as somebody else. */
function Other({ of, former }: { of: Session; former: string | null | undefined }) {
  return (
    <div class="notice" role="alert">
      <p>
        You are signed in as <code>{of.key_id ?? 'nobody'}</code> (<Name of={of.tenant} />) in another tab. This page was of{' '}
        <code>{former ?? 'nobody'}</code>: nothing is done with it, and nothing that you typed is lost.
      </p>
      <button onClick={() => location.reload()}>Reload the page as {of.key_id ?? 'nobody'}</button>
    </div>
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

interface Kind {
  place: string;
  name: string;
  prefix: string;
  id: RegExp;
}

/** What has a page by its id. */
const KINDS: Kind[] = [
  { place: 'refinements', name: 'refinement', prefix: 'ref_', id: /^ref_[0-9A-HJKMNP-TV-Z]{26}$/ },
  { place: 'batches', name: 'batch', prefix: 'batch_', id: /^batch_[0-9A-HJKMNP-TV-Z]{26}$/ },
];

/** What the address names. */
function Page({ route, session }: { route: Route; session: Session }) {
  const [place = '', id, part] = route.path;
  const kind = KINDS.find((it) => it.place === place);
  // Other characters than those of an id would change the address that is asked.
  if (kind && id && !kind.id.test(id)) return <Misnamed kind={kind} id={id} />;
  if (place === 'refinements' && id) return <RefinementPage key={id} id={id} part={part ?? ''} session={session} />;
  if (place === '' || place === 'refinements') return <RefinementList query={route.query} session={session} />;
  if (place === 'batches' && id) return <BatchPage key={id} id={id} session={session} />;
  if (place === 'batches') return <BatchList query={route.query} />;
  if (place === 'new') return <SubmitPage from={route.query.get('from')} session={session} />;
  return <Nothing />;
}

/** Says that the address has no id where it needs one, or that of something else. */
function Misnamed({ kind, id }: { kind: Kind; id: string }) {
  const other = KINDS.find((it) => it.id.test(id));
  return (
    <Nothing>
      <p role="alert">
        “<Name of={id} />” is no id of a {kind.name}: one is <code>{kind.prefix}</code> and 26 digits or letters.
        {other && (
          <>
            {' '}
            It is the id of a {other.name}: <Link href={hrefOf(other.place, id)}>{id}</Link>
          </>
        )}
      </p>
    </Nothing>
  );
}

function Nothing({ children }: { children?: ComponentChildren }) {
  useTitle('Nothing here');
  return (
    <>
      <h1>Nothing here</h1>
      {children}
      <p>
        The console has no page at this address. <Link href={hrefOf()}>All refinements</Link>
      </p>
    </>
  );
}
