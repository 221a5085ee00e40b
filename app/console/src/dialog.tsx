/** A dialog that holds the focus until it is closed, and gives it back. Esc closes it. */
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure } from './parts.js';

interface Shown {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children }: Shown) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      const now = document.activeElement;
      if (now && now !== document.body && !shown?.contains(now)) return; // the browser gave it back, and it went on
      const isThere = before instanceof HTMLElement && before !== document.body && before.isConnected;
      (isThere ? before : document.getElementById('main'))?.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={close}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

interface Asked {
  title: string;
  /** What the button says that does it. */
  label: string;
  isDanger?: boolean;
  isDisabled?: boolean;
  /** Do it, and return what came of it; what it throws is shown, and the dialog stays. */
  run: () => Promise<string>;
  done: (said: string) => void;
  close: () => void;
  children?: ComponentChildren;
}

/** Asks before something is done, with what it needs to know. */
export function Ask({ title, label, isDanger, isDisabled, run, done, close, children }: Asked) {
  const [failure, setFailure] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isSending || isDisabled) return;
    setSending(true);
    setFailure(undefined);
    try {
      done(await run());
      close();
    } catch (thrown) {
      setFailure(thrown);
      setSending(false);
    }
  };
  return (
    <Dialog title={title} close={close}>
      <form class="ask" onSubmit={submit}>
        {children}
        {failure !== undefined && <Failure of={failure} />}
        <p class="actions">
          <button class={isDanger ? 'danger' : 'main'} disabled={isSending || isDisabled}>
            {label}
          </button>
          <button type="button" autoFocus={isDanger} onClick={close}>
            Back
          </button>
        </p>
      </form>
    </Dialog>
  );
}
