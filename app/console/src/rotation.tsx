/** The question for how many hours what is replaced by something new still works. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hone } from './api.js';
import { Ask } from './dialog.js';

/** Whoever asks something of a person: what happens when it was done, and when it was not. */
export interface Asking {
  done: () => void;
  close: () => void;
}

interface Rotating<Made> extends Asking {
  title: string;
  label: string;
  /** The path of what is rotated. */
  path: string;
  made: (it: Made) => void;
  children: ComponentChildren;
}

export function Rotation<Made>({ title, label, path, made, done, close, children }: Rotating<Made>) {
  const [hours, setHours] = useState('24');
  const run = async () => {
    made(await hone.request<Made>(`${path}/rotate`, { method: 'POST', json: { overlap_s: Math.round(3_600 * Number(hours)) } }));
    return '';
  };
  return (
    <Ask title={title} label={label} run={run} done={done} close={close}>
      <p>{children}</p>
      <label>
        Hours
        <input type="number" min="0" max="720" required value={hours} onInput={(event) => setHours(event.currentTarget.value)} />
      </label>
    </Ask>
  );
}
