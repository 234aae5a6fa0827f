import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { curlOf } from '../command.ts';
import { type ApiRequest, RequestFailed, send } from '../request.ts';
import { isAllowed, sessionEnded } from '../session.ts';
import { Code } from './copy.tsx';
import { Problem } from './loaded.tsx';
import { Icon } from './icon.tsx';

/** What a person does: the request that is sent, and the command that does the same. */
export interface Action {
  readonly request: ApiRequest;
  /** As typed in a shell: `leat streams pause est_…`; absent where no command does the same. */
  readonly command?: string | undefined;
}

/** The state of an action that is sent at most once at a time. */
export interface Sending<T> {
  readonly isSending: boolean;
  readonly error: unknown;
  /** Resolves to undefined when it failed; {@link error} says why. */
  start(action: Action): Promise<T | undefined>;
}

/** Returns a function that sends actions, and what becomes of them. `onDone` runs after a success. */
export function useSending<T>(onDone: (result: T) => void): Sending<T> {
  const [isSending, setSending] = useState(false);
  const isUnderWay = useRef(false);
  const [error, setError] = useState<unknown>();
  const start = async ({ request }: Action): Promise<T | undefined> => {
    if (isUnderWay.current) return undefined;
    isUnderWay.current = true;
    setSending(true);
    setError(undefined);
    try {
      const result = await send<T>(request);
      onDone(result);
      return result;
    } catch (thrown) {
      if (thrown instanceof RequestFailed && thrown.status === 401) await sessionEnded();
      setError(thrown);
      return undefined;
    } finally {
      isUnderWay.current = false;
      setSending(false);
    }
  };
  return { isSending, error, start };
}

interface ActionDialogProps<T> {
  readonly title: string;
  /** What the button says; for many at once with their number: `Redeliver 1 204`. */
  readonly label: string;
  /** Absent while something is missing that it needs: then it cannot be sent. */
  readonly action: Action | undefined;
  readonly isDanger?: boolean;
  /** A name that must be typed first. */
  readonly typed?: string;
  readonly onDone: (result: T) => void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** Asks before an action is sent, with what it does and how the same is done elsewhere. */
export function ActionDialog<T>(props: ActionDialogProps<T>) {
  const { title, label, action, isDanger, typed, onDone, onClose, children } = props;
  const [text, setText] = useState('');
  const { isSending, error, start } = useSending<T>((result) => {
    onClose();
    onDone(result);
  });
  const isReady = action !== undefined && (typed === undefined || text === typed);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void start(action);
        }}
      >
        {children}
        {typed !== undefined && (
          <label class="field">
            <span>
              Type <code>{typed}</code> to go on
            </span>
            <input
              value={text}
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </label>
        )}
        {error !== undefined && <Problem error={error} />}
        {action !== undefined && <SameElsewhere {...action} />}
        <footer>
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={isDanger === true ? 'button primary danger' : 'button primary'}
            disabled={!isReady}
            aria-disabled={isSending}
          >
            {isSending ? 'Sending …' : label}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Shows the command and the request that do the same as an action. */
export function SameElsewhere({ request, command }: Action) {
  return (
    <details>
      <summary>The same on the command line</summary>
      <div class="stack-tight">
        {command !== undefined && <Code text={command} what="command" />}
        <Code text={curlOf(request, location.origin)} what="request" />
      </div>
    </details>
  );
}

interface AllowedProps {
  readonly scope: string;
  /** The operation, where a role may call it without the scope. */
  readonly operation?: string;
  /** What the others see. */
  readonly otherwise?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** Shows something only to those whose role allows it. */
export function Allowed({ scope, operation, otherwise, children }: AllowedProps) {
  return <>{isAllowed(scope, operation) ? children : otherwise}</>;
}

interface DialogProps {
  readonly title: string;
  readonly isWide?: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog; Escape closes it, and the focus goes back to where it was. */
function Dialog({ title, isWide, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    element.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={isWide === true ? 'wide' : ''}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div class="stack">
        <div class="row row-spread">
          <h2 id={id} class="grow wrap-anywhere">
            {title}
          </h2>
          <button
            type="button"
            class="button plain icon small"
            aria-label="Close"
            onClick={onClose}
          >
            <Icon name="close" size={14} />
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
