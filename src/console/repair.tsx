import { useEffect, useState } from 'preact/hooks';
import type { DismissalShown } from '../schemas/dismissals.ts';
import type { FailurePreviewShown } from '../schemas/failures.ts';
import type { RedeliveryShown } from '../schemas/redeliveries.ts';
import { causeName } from './cause-name.ts';
import { commandOf, type FailureSelection, type Repair } from './failure-filter.ts';
import { useParameters } from './location.ts';
import { ActionDialog, Allowed } from './parts/action.tsx';
import { Problem } from './parts/loaded.tsx';
import { count, plural } from './parts/numbers.ts';
import { refresh } from './queries.ts';
import { send } from './request.ts';
import { isAllowed } from './session.ts';

interface RepairButtonsProps {
  readonly selection: FailureSelection;
  /** The word for the stream of the selection in a command, where it has one. */
  readonly stream: string | undefined;
  /** What is repaired, as `HTTP 503 of crm`; ends the titles of the dialogs. */
  readonly of: string;
  /** Ends the names of the buttons, where a page has several pairs of them. */
  readonly name?: string;
  readonly isSmall?: boolean;
  readonly isDisabled?: boolean;
  /** What the buttons say after their verb: `all`. */
  readonly what?: string;
  /** Whether to redeliver is the main action of the page. */
  readonly isPrimary?: boolean;
  readonly onStarted?: () => void;
}

const scope = 'update:event_deliveries';

/** Returns whether the role may end failures. */
export function mayRepair(): boolean {
  return isAllowed(scope);
}

/** The two buttons that end failures: send them again, or close them. */
export function RepairButtons(props: RepairButtonsProps) {
  const { name, what = '', isSmall, isDisabled = false, isPrimary } = props;
  const [open, setOpen] = useState<Repair>();
  const size = isSmall === true ? ' small' : '';
  const rest = (
    <>
      {what === '' ? '' : ` ${what}`}
      {name !== undefined && <span class="visually-hidden"> {name}</span>}
    </>
  );
  return (
    <Allowed scope={scope}>
      <span class="row repair">
        <button
          type="button"
          class={`button${size}${isPrimary === true ? ' primary' : ''}`}
          disabled={isDisabled}
          onClick={() => setOpen('redeliver')}
        >
          Redeliver{rest}
        </button>
        <button
          type="button"
          class={`button${size}`}
          disabled={isDisabled}
          onClick={() => setOpen('dismiss')}
        >
          Dismiss{rest}
        </button>
      </span>
      {open !== undefined && (
        <RepairDialog {...props} repair={open} onClose={() => setOpen(undefined)} />
      )}
    </Allowed>
  );
}

const repairs = {
  redeliver: {
    title: 'Redeliver',
    path: '/redeliveries',
    parameter: 'redelivery',
    text: 'Each is sent again, with all retries of a new cycle, also to a stream that is disabled or paused. Those that are being redelivered already are skipped.',
  },
  dismiss: {
    title: 'Dismiss',
    path: '/dismissals',
    parameter: 'dismissal',
    text: 'They are closed without being sent. A dismissed failure cannot be redelivered unless it is reopened, which its page offers; a replay sends its event again.',
  },
} as const;

interface RepairDialogProps extends RepairButtonsProps {
  readonly repair: Repair;
  readonly onClose: () => void;
}

/** Counts what would be done, and does it for what was counted. */
function RepairDialog({ repair, selection, stream, of, onClose, onStarted }: RepairDialogProps) {
  const { title, path, parameter, text } = repairs[repair];
  const parameters = useParameters();
  const { preview, error, again } = usePreview(path, selection);
  const total = preview?.count ?? 0;
  const body = { ...selection, failed_to: preview?.failed_to };
  return (
    <ActionDialog<RedeliveryShown | DismissalShown>
      title={`${title} ${of}`}
      label={preview === undefined ? title : `${title} ${count(total)}`}
      isDanger={repair === 'dismiss'}
      action={
        total === 0
          ? undefined
          : {
              request: { method: 'POST', path, body },
              command: commandOf(repair, selection, stream),
            }
      }
      onClose={onClose}
      onDone={({ id }) => {
        refreshFailures();
        parameters.go({ [parameter]: id });
        onStarted?.();
      }}
    >
      {error !== undefined && <Problem error={error} retry={again} />}
      {error === undefined && <Preview preview={preview} text={text} />}
    </ActionDialog>
  );
}

/** Reads again what shows failures. */
export function refreshFailures(): void {
  const paths = ['/deliveries', '/delivery-groups', '/overview', '/stream-health'];
  refresh([...paths, '/event-streams/', '/redeliveries?', '/event-log']);
}

/** Asks the server what a request would act on. */
function usePreview(path: string, selection: FailureSelection) {
  const [preview, setPreview] = useState<FailurePreviewShown>();
  const [error, setError] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    const body = { ...selection, dry_run: true };
    setError(undefined);
    send<FailurePreviewShown>({ method: 'POST', path, body }, { signal: ending.signal }).then(
      setPreview,
      (thrown: unknown) => {
        if (!ending.signal.aborted) setError(thrown);
      },
    );
    return () => ending.abort();
  }, [round]);
  return { preview, error, again: () => setRound(round + 1) };
}

const groupsMax = 5;

function Preview({
  preview,
  text,
}: {
  readonly preview: FailurePreviewShown | undefined;
  readonly text: string;
}) {
  if (preview === undefined) {
    return (
      <p role="status" class="muted">
        Counting the failures …
      </p>
    );
  }
  const { count: total, groups } = preview;
  if (total === 0) return <p role="status">No open failure matches any more.</p>;
  const shown = groups.slice(0, groupsMax);
  const rest = total - shown.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <p role="status">
        <span class="strong">{plural(total, 'open failure')}.</span> {text}
      </p>
      <ul class="preview">
        {shown.map(({ event_stream_id: id, name, error_code: code, count: number }) => (
          <li key={`${id} ${code}`}>
            <span class="wrap-anywhere">
              {causeName(code)} <span class="muted">of {name === '' ? id : name}</span>
            </span>
            <span class="number">{count(number)}</span>
          </li>
        ))}
        {rest > 0 && (
          <li>
            <span class="muted">others</span>
            <span class="number">{count(rest)}</span>
          </li>
        )}
      </ul>
    </>
  );
}
