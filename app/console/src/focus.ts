/** Where the focus goes when what has it vanishes, such as a row that was removed or a button that has done its work. */
import { useEffect } from 'preact/hooks';

const FOCUSABLE = 'a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), summary, [tabindex]';

const FIELDS = 'input, textarea, select';

interface Place {
  element: Element;
  /** Where it stands among its neighbours. */
  index: number;
}

/** Give the focus to what stands in its place now, or to the whole page where all around it is gone. */
export function useKeptFocus(): void {
  useEffect(() => {
    let places: Place[] = []; // what has the focus, and what it is in
    const look = () => {
      places = [];
      for (let it = document.activeElement; it && it !== document.body; it = it.parentElement)
        places.push({ element: it, index: [...(it.parentElement?.children ?? [])].indexOf(it) });
    };
    const keep = () => {
      const isLost = places[0] && !places[0].element.isConnected;
      if (!isLost || document.activeElement !== document.body || document.querySelector('dialog[open]')) return;
      const above = places.findIndex((it) => it.element.isConnected);
      const gone = places[above - 1];
      const around = places[above]?.element;
      const main = document.getElementById('main');
      const found = around && around !== main && gone ? nextTo(around, gone.index) : null;
      places = [];
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
 * Return what can have the focus at this place of an element: the next such thing, else the last one. A field is
 * the last choice, for the next key would be typed into it.
 */
function nextTo(around: Element, index: number): HTMLElement | null {
  const found = [...around.querySelectorAll<HTMLElement>(FOCUSABLE)].filter((it) => it.tabIndex >= 0 && it.getClientRects().length > 0);
  const at = around.children[index];
  const isAfter = (it: Element) => at && (at.contains(it) || Boolean(at.compareDocumentPosition(it) & Node.DOCUMENT_POSITION_FOLLOWING));
  return found.find((it) => isAfter(it) && !it.matches(FIELDS)) ?? found.find(isAfter) ?? found.at(-1) ?? null;
}
