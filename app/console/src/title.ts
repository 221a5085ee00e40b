/** The title of the document, which tabs and the browser's history show: every page, and each of its parts, has its own. */
import { useEffect, useRef } from 'preact/hooks';
import { turnless } from './parts.js';

const shown: { title: string }[] = []; // by what came last: whoever signs in again does so above the page

function draw(): void {
  const last = shown.at(-1);
  if (last) document.title = last.title;
}

/** Name what is shown, while it is shown; what is empty is left out. */
export function useTitle(...parts: (string | null | undefined)[]): void {
  const title = [...parts.filter(Boolean), 'Hone'].join(' – ');
  const own = useRef({ title });
  useEffect(() => {
    shown.push(own.current);
    draw();
    return () => {
      shown.splice(shown.indexOf(own.current), 1);
      draw();
    };
  }, []);
  useEffect(() => {
    own.current.title = title;
    draw();
  }, [title]);
}

/** Return a text of somebody for a title, where it turns nothing around it: what `Name` is in a page. */
export const isolated = (text: string): string => text && `\u2068${turnless(text)}\u2069`;
