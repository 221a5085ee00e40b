/** Titles: of the document, which tabs and the browser's history show, and of refinements, by which people tell them apart. */
import type { Snapshot } from 'hone';
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

/** The name of the metadata that gives a refinement its title. */
export const TITLE = 'title';

/** Return the title that was given, or else the first words of the text. */
export const titleOf = (of: Pick<Snapshot, 'metadata' | 'excerpt' | 'custom_id' | 'erased_at'>): string =>
  of.metadata[TITLE]?.trim() || of.excerpt?.replace(/\s+\S*…$/u, '…') || of.custom_id || (of.erased_at ? 'Erased text' : 'No title');
