/** Addresses of the console: the path is what is shown, the query how. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { root } from './api.js';

const base = `${root}/console`;

export interface Route {
  /** The parts of the path after `/console`, decoded. */
  path: string[];
  query: URLSearchParams;
}

function current(): Route {
  const parts = location.pathname.slice(base.length).split('/').filter(Boolean);
  return { path: parts.map(decoded), query: new URLSearchParams(location.search) };
}

/** Return what a part of a path says, or the part itself if it is not encoded as it must be. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Return the address of a path in the console, such as `('refinements', id)`. */
export const hrefOf = (...path: string[]): string =>
  [base, ...path.map(encodeURIComponent)].join('/') + (path.length ? location.hash : '');

/** Show another page; `replace` leaves no entry in the browser's history. */
export function navigate(href: string, replace = false): void {
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  dispatchEvent(new Event('popstate'));
  if (!replace) scrollTo(0, 0);
}

/** Change the query of the current page; an empty value removes a name, an array repeats it. */
export function setQuery(changes: Record<string, string | string[]>, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const each of [value].flat()) if (each) query.append(name, each);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : '') + location.hash, replace);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const moved = () => setRoute(current());
    addEventListener('popstate', moved);
    return () => removeEventListener('popstate', moved);
  }, []);
  return route;
}

interface LinkProperties {
  href: string;
  class?: string | undefined;
  title?: string | undefined;
  'aria-current'?: 'page' | undefined;
  children?: ComponentChildren;
}

/** A link within the console; other clicks than the plain one are the browser's. */
export function Link({ href, children, ...rest }: LinkProperties) {
  const follow = (event: MouseEvent) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a href={href} onClick={follow} {...rest}>
      {children}
    </a>
  );
}
