/** A dialog that holds the focus until it is closed, and gives it back however it is closed. Esc closes it. */
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { giveBack, placesOf } from './focus.js';
import { Failure } from './parts.js';

interface Shown {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children }: Shown) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = placesOf(document.activeElement);
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      shown?.close(); // while it is open, nothing outside of it can have the focus
      const last = document.activeElement;
      if (last instanceof HTMLElement && shown?.contains(last)) last.blur(); // the browser had nothing to give it back to
      giveBack(before);
    };
  }, []);
  return (
    // What closed it without the browser has told its owner already. Esc tells it before the focus is given back, for
    // `close` comes after that: what a quick Enter opened again would be closed by it.
    <dialog ref={dialog} aria-label={title} onCancel={close} onClose={(event) => event.currentTarget.isConnected && close()}>
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
  /** What must be typed or chosen first: said to somebody who does it without. */
  missing?: string | undefined;
  /** Do it, and return what came of it; what it throws is shown, and the dialog stays. */
  run: () => Promise<string>;
  done: (said: string) => void;
  close: () => void;
  children?: ComponentChildren;
}

/** Asks before something is done, with what it needs to know. */
export function Ask({ title, label, isDanger, missing, run, done, close, children }: Asked) {
  const [failure, setFailure] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  const [isTried, setTried] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isSending) return;
    setFailure(undefined);
    setTried(Boolean(missing));
    if (missing) return;
    setSending(true);
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
        {isTried && missing && (
          <p class="error" role="alert">
            {missing}
          </p>
        )}
        {failure !== undefined && <Failure of={failure} />}
        <p class="actions">
          {/* A button that is disabled loses the focus, also where what it did is refused. */}
          <button class={isDanger ? 'danger' : 'main'} aria-disabled={isSending}>
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
