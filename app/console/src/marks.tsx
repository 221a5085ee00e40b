/** How marks show what changed in a text, and what did not. */
import { useState } from 'preact/hooks';

export const FOLDED = 600;
export const KEPT = 160;

/** What did not change in a text or line; of much only what is next to a change. */
export function Same({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(text.length <= FOLDED);
  if (isOpen) return <>{text}</>;
  return (
    <>
      {text.slice(0, KEPT)}
      <button class="fold" onClick={() => setOpen(true)}>
        … {(text.length - 2 * KEPT).toLocaleString('en')} unchanged characters
      </button>
      {text.slice(-KEPT)}
    </>
  );
}

/** White space alone would not be seen. */
export const visible = (text: string): string =>
  text.trim() ? text : text.replaceAll(' ', '·').replaceAll('\t', '→').replaceAll(/\r?\n/g, '⏎\n');
