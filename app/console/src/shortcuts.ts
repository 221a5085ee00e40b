/** Single keys that do something while no field has the focus. */
import { useEffect } from 'preact/hooks';

const OFF = 'hone.keys_off';

export const areKeysOff = (): boolean => Boolean(localStorage.getItem(OFF));

export function switchKeysOff(isOff: boolean): void {
  if (isOff) localStorage.setItem(OFF, '1');
  else localStorage.removeItem(OFF);
}

/**
 * Call a function with each single key that is pressed outside of fields and dialogs, unless shortcuts
 * are switched off. It returns whether the key means something to it.
 */
export function useShortcuts(pressed: (key: string) => boolean): void {
  useEffect(() => {
    const look = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented || areKeysOff()) return;
      if ((event.target as Element).closest('input:not([type="checkbox"]), textarea, select') || document.querySelector('dialog[open]')) return;
      if (pressed(event.key)) event.preventDefault(); // or a field that has the focus now would have the letter
    };
    addEventListener('keydown', look);
    return () => removeEventListener('keydown', look);
  });
}

/** Give the focus to the next of these elements, or to the one before, seen from one of them; return its place, or -1 where there is none. */
export function walk(elements: HTMLElement[], step: 1 | -1, from: Element | null = document.activeElement): number {
  if (!elements.length) return -1;
  const now = elements.indexOf(from as HTMLElement);
  const next = (now + (now < 0 && step < 0 ? 0 : step) + elements.length) % elements.length;
  elements[next]?.focus();
  elements[next]?.scrollIntoView({ block: 'center' });
  return next;
}

/** Give the focus to what has this key as `data-key`; the button of the editor opens it, with the focus in its text. */
export function goTo(key: string): boolean {
  const element = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`);
  if (key === 'e' && element instanceof HTMLButtonElement) element.click();
  else element?.focus();
  return element !== null;
}
