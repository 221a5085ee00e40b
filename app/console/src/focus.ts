/** Where the focus goes when what has it vanishes, such as a row that was removed or a button that has done its work. */
import { useEffect } from 'preact/hooks';

const FOCUSABLE = 'a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), summary, [tabindex]';

/** What opens a dialog. */
const OPENERS = '[aria-haspopup="dialog"]';

const FIELDS = 'input, textarea, select';

interface Place {
  element: Element;
  /** Where it stands among its neighbours. */
  index: number;
}

/** Return an element and what it is in, from the inside outwards; nothing for the whole page. */
export function placesOf(element: Element | null): Place[] {
  const places: Place[] = [];
  for (let it = element; it && it !== document.body; it = it.parentElement)
    places.push({ element: it, index: [...(it.parentElement?.children ?? [])].indexOf(it) });
  return places;
}

/** Give the focus to what stands in its place now, or to the whole page where all around it is gone. */
export function useKeptFocus(): void {
  useEffect(() => {
    let places: Place[] = []; // what has the focus, and what it is in
    const look = () => {
      places = placesOf(document.activeElement);
    };
    const keep = () => {
      const isLost = places[0] && !places[0].element.isConnected;
      if (!isLost || document.activeElement !== document.body || document.querySelector('dialog[open]')) return;
      const left = places;
      places = [];
      if (left[0]?.element.matches(OPENERS)) return giveBack(left);
      const above = left.findIndex((it) => it.element.isConnected);
      const gone = left[above - 1];
      const around = left[above]?.element;
      const main = document.getElementById('main');
      const found = around && around !== main && gone ? nextTo(around, gone.index) : null;
      (found ?? main)?.focus({ preventScroll: found === null });
    };
    const observer = new MutationObserver(keep);
    observer.observe(document.body, { childList: true, subtree: true });
    addEventListener('focusin', look);
    return () => {
      observer.disconnect();
      removeEventListener('focusin', look);
    };
  }, []);
}

/**
 * Give the focus back to what had it before a dialog. Where that is gone, the heading of the part that it was in has
 * it: the command beside it is another one, which the next Enter would open.
 */
export function giveBack(places: Place[]): void {
  const now = document.activeElement;
  if (now && now !== document.body) return; // the browser gave it back, and it may have gone on
  const before = places[0]?.element;
  if (before instanceof HTMLElement && before.isConnected) before.focus();
  if (document.activeElement !== document.body) return;
  const heading = before && headingOf(places);
  if (heading) heading.tabIndex = -1;
  (heading ?? document.getElementById('main'))?.focus({ preventScroll: !heading });
}

/** Return the heading of the nearest part around a place that is left, or that of the page. */
function headingOf(places: Place[]): HTMLElement | null {
  for (const { element } of places) {
    const heading = element.isConnected ? element.querySelector<HTMLElement>(':scope > :is(h1, h2, h3)') : null;
    if (heading) return heading;
  }
  return document.querySelector<HTMLElement>('#main h1');
}

/**
 * Return what can have the focus at this place of an element: the next such thing, else the last one. A field is
 * the last choice, for the next key would be typed into it.
 */
function nextTo(around: Element, index: number): HTMLElement | null {
  const found = [...around.querySelectorAll<HTMLElement>(FOCUSABLE)].filter((it) => it.tabIndex >= 0 && it.getClientRects().length > 0);
  const at = around.children[index];
  const isAfter = (it: Element) => at && (at.contains(it) || Boolean(at.compareDocumentPosition(it) & Node.DOCUMENT_POSITION_FOLLOWING));
  return found.find((it) => isAfter(it) && !it.matches(FIELDS)) ?? found.find(isAfter) ?? found.at(-1) ?? null;
}
