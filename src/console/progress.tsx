import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { DismissalShown } from '../schemas/dismissals.ts';
import type { RedeliveryShown } from '../schemas/redeliveries.ts';
import { Allowed, ActionDialog } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Loaded } from './parts/loaded.tsx';
import { Notice, say } from './parts/notice.tsx';
import { count, plural } from './parts/numbers.ts';
import { Time } from './parts/time.tsx';
import { type Read, refresh, useRead } from './queries.ts';
import { refreshFailures } from './repair.tsx';

/** Every second while it runs, and not while the tab is hidden. */
function pollOf(data: RedeliveryShown | DismissalShown): number | false {
  return !isOver(data) && 1000;
}

/** Reads a request about many failures again while it runs. `onEnd` is called when it has ended. */
function useProgress<T extends RedeliveryShown | DismissalShown>(
  path: string,
  onEnd: (shown: T) => void,
): Read<T> {
  const read = useRead<T>(path, { refetchMs: pollOf });
  const wasRunning = useRef(false);
  const { data } = read;
  const isRunning = data !== undefined && !isOver(data);
  useEffect(() => {
    if (data !== undefined && !isRunning && wasRunning.current) onEnd(data);
    wasRunning.current = isRunning;
  }, [path, isRunning]);
  return read;
}

/** Whether nothing changes any more; what was under way goes on after a redelivery was cancelled. */
function isOver(shown: RedeliveryShown | DismissalShown): boolean {
  return shown.status !== 'running' && (!('remaining' in shown) || shown.remaining === 0);
}

interface RedeliveryProgressProps {
  readonly id: string;
  /** Why failures came back, where it is known. */
  readonly cause?: ComponentChildren;
}

/** Shows how far a redelivery is, while it runs, and how it ended. */
export function RedeliveryProgress({ id, cause }: RedeliveryProgressProps) {
  const read = useProgress<RedeliveryShown>(`/redeliveries/${id}`, (shown) => {
    refreshFailures();
    say(endOf(shown), shown.failed > 0 ? 'bad' : 'ok');
  });
  return (
    <Loaded read={read} lines={3}>
      {(shown) => (
        <div class="stack">
          <Bar
            label="Redelivery"
            total={shown.total}
            parts={[
              { name: 'Delivered', tone: 'ok', value: shown.delivered },
              { name: 'Failed again', tone: 'bad', value: shown.failed },
              { name: 'Skipped', tone: 'muted', value: shown.skipped },
              { name: 'Remaining', tone: 'line', value: shown.remaining },
            ]}
          />
          <End {...shown} cause={cause} />
          <div class="row row-spread">
            <Facts {...shown} />
            {shown.status === 'running' && shown.remaining > 0 && <Cancel {...shown} />}
          </div>
        </div>
      )}
    </Loaded>
  );
}

/** Shows how far a dismissal is, while it runs, and how it ended. */
export function DismissalProgress({ id }: { readonly id: string }) {
  const read = useProgress<DismissalShown>(`/dismissals/${id}`, ({ dismissed, reopened }) => {
    refreshFailures();
    say(
      reopened > 0
        ? `${plural(reopened, 'failure')} open again.`
        : `${plural(dismissed, 'failure')} dismissed.`,
    );
  });
  return (
    <Loaded read={read} lines={3}>
      {(shown) => (
        <div class="stack">
          <Bar
            label="Dismissal"
            total={shown.total}
            parts={[
              { name: 'Dismissed', tone: 'ok', value: shown.dismissed - shown.reopened },
              ...reopenedPart(shown),
              { name: 'Skipped', tone: 'muted', value: shown.skipped },
              {
                name: 'Remaining',
                tone: 'line',
                value: Math.max(0, shown.total - shown.dismissed - shown.skipped),
              },
            ]}
          />
          {shown.status === 'done' && shown.skipped > 0 && (
            <p>
              {count(shown.skipped)} skipped: they are being redelivered, or were closed in another
              way before their turn.
            </p>
          )}
          <div class="row row-spread">
            <Facts {...shown} />
            {shown.status === 'done' && shown.dismissed > shown.reopened && <Reopen {...shown} />}
          </div>
        </div>
      )}
    </Loaded>
  );
}

function reopenedPart({ reopened }: DismissalShown): readonly Part[] {
  return reopened === 0 ? [] : [{ name: 'Reopened', tone: 'bad', value: reopened }];
}

function Reopen({ id, dismissed, reopened }: DismissalShown) {
  const [isOpen, setOpen] = useState(false);
  const label = `Reopen ${count(dismissed - reopened)}`;
  return (
    <Allowed scope="update:event_deliveries">
      <button type="button" class="button small" onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && (
        <ActionDialog
          title="Reopen the failures"
          label={label}
          action={{
            request: { method: 'POST', path: `/dismissals/${id}/reopen` },
            command: `leat reopen ${id}`,
          }}
          onClose={() => setOpen(false)}
          onDone={() => {
            refresh([`/dismissals/${id}`]);
            refreshFailures();
          }}
        >
          <p>
            They become open failures again and can be redelivered; nothing is sent. Those that were
            sent or have failed since, or whose events are no longer kept, stay dismissed.
          </p>
        </ActionDialog>
      )}
    </Allowed>
  );
}

interface Part {
  readonly name: string;
  readonly tone: 'ok' | 'bad' | 'muted' | 'line';
  readonly value: number;
}

interface BarProps {
  readonly label: string;
  readonly total: number;
  readonly parts: readonly Part[];
}

/** A bar of parts, and their figures. The last part is what is not over yet. */
function Bar({ label, total, parts }: BarProps) {
  const over = parts.slice(0, -1).reduce((sum, { value }) => sum + value, 0);
  return (
    <>
      <div
        class="bar"
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.max(1, total)}
        aria-valuenow={over}
        aria-valuetext={`${over} of ${total}`}
      >
        {parts.map(({ name, tone, value }) => (
          <span key={name} class={`part-${tone}`} style={{ flexGrow: value }} />
        ))}
      </div>
      <dl class="parts">
        {parts.map(({ name, tone, value }) => (
          <div key={name}>
            <dt>
              <span class={`swatch part-${tone}`} aria-hidden="true" />
              {name}
            </dt>
            <dd>{count(value)}</dd>
          </div>
        ))}
        <div>
          <dt>Total</dt>
          <dd>{count(total)}</dd>
        </div>
      </dl>
    </>
  );
}

function Facts(shown: RedeliveryShown | DismissalShown) {
  return (
    <p class="row">
      <Badge state={shown.status} />
      <span class="meta wrap-anywhere">
        started <Time at={shown.created_at} /> by {shown.created_by}
        {shown.at_least === true && '; the total grows until all failures are taken'}
      </span>
    </p>
  );
}

/** Says how a redelivery ended; that failures came back also while it runs. */
function End(shown: RedeliveryShown & { readonly cause: ComponentChildren }) {
  const { status, failed, skipped, cause } = shown;
  return (
    <>
      {failed > 0 && (
        <Notice tone="bad">
          <p>
            <span class="strong">{count(failed)} failed again</span>
            {cause === undefined ? ': they are open failures, as before.' : <>: {cause}</>}
          </p>
        </Notice>
      )}
      {status === 'done' && failed === 0 && (
        <Notice tone="ok">
          <p>{endOf(shown)}</p>
        </Notice>
      )}
      {status === 'cancelled' && (
        <Notice tone="info">
          <p>{endOf(shown)} What had not begun stays an open failure.</p>
        </Notice>
      )}
      {status === 'done' && skipped > 0 && (
        <p>
          {count(skipped)} skipped: they were being redelivered already, or were closed before their
          turn.
        </p>
      )}
    </>
  );
}

/** Returns how a redelivery ended, in words. */
function endOf({ status, delivered, failed, skipped, total }: RedeliveryShown): string {
  if (status === 'cancelled')
    return `Cancelled after ${plural(delivered, 'delivery', 'deliveries')}.`;
  if (failed > 0) return `${count(failed)} of ${count(total)} failed again.`;
  if (skipped === 0 && delivered > 1) return `All ${count(delivered)} delivered.`;
  return `${count(delivered)} delivered.`;
}

function Cancel({ id, remaining }: RedeliveryShown) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Allowed scope="update:event_deliveries">
      <button type="button" class="button small" onClick={() => setOpen(true)}>
        Cancel the remaining {count(remaining)}
      </button>
      {isOpen && (
        <ActionDialog
          title="Cancel the redelivery"
          label={`Cancel the remaining ${count(remaining)}`}
          isDanger
          action={{
            request: { method: 'DELETE', path: `/redeliveries/${id}` },
            command: `leat redeliveries cancel ${id}`,
          }}
          onClose={() => setOpen(false)}
          onDone={() => {
            refresh([`/redeliveries/${id}`]);
            refreshFailures();
          }}
        >
          <p>
            What has not begun stays an open failure and can be redelivered again. Attempts under
            way end.
          </p>
        </ActionDialog>
      )}
    </Allowed>
  );
}
