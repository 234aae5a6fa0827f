import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import type { FailurePreviewShown } from '../schemas/failures.ts';
import type { RedeliveryShown } from '../schemas/redeliveries.ts';
import { type ApiRun, withNumbers } from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { pathOf } from './http/api-client.ts';
import { terminalSafe } from './json.ts';
import { counted, progressText } from './terminal/progress.ts';

/** What `leat redeliver` selects over streams. */
export interface RedeliverySelection {
  readonly event_stream_ids: readonly string[] | undefined;
  readonly error_codes: readonly string[] | undefined;
  readonly event_types: readonly string[] | undefined;
  readonly date_from: string | undefined;
  readonly date_to: string | undefined;
  readonly all: true | undefined;
}

/** Prints what a redelivery would send. */
export async function previewRedelivery(
  { api, terminal, json }: ApiRun,
  selection: RedeliverySelection,
): Promise<void> {
  const body = { ...selection, dry_run: true };
  const response = await api.send({ method: 'POST', path: '/redeliveries', body });
  if (json) return terminal.print(terminalSafe(response.text));
  const { count, groups } = withNumbers<FailurePreviewShown>(response.body, 'count');
  terminal.print(`${counted(count, 'failure')} would be sent again.`);
  for (const group of groups) {
    terminal.print(`  ${printable(group.name)}: ${group.count} ${group.error_code ?? 'unknown'}`);
  }
}

/** Starts a redelivery and waits for its end, unless `wait` is false. */
export async function startRedelivery(
  run: ApiRun,
  selection: RedeliverySelection,
  wait: boolean,
): Promise<void> {
  const { api, terminal, json, leat } = run;
  const response = await api.send({ method: 'POST', path: '/redeliveries', body: selection });
  const shown = progressIn(response.body);
  if (!wait) {
    if (json) return terminal.print(terminalSafe(response.text));
    if (shown.total === 0) return report(run, shown);
    const count = counted(shown.remaining, 'failure', shown.at_least);
    return terminal.print(`${count} will be sent again.`);
  }
  if (shown.status === 'running') {
    const id = printable(shown.id);
    terminal.note(
      `Redelivery ${id} is running; Ctrl-C does not cancel it. This does: ${leat`redeliveries cancel ${id}`}`,
    );
  }
  await followRedelivery(run, shown);
}

/** Waits for the end of a redelivery with a progress bar, and reports it. */
export async function followRedelivery(run: ApiRun, begun: RedeliveryShown): Promise<void> {
  const { api, terminal, clock, signal } = run;
  let shown = begun;
  while (shown.status === 'running') {
    terminal.progress(progressOf(shown, terminal.progressWidth));
    await sleep(clock, pollEveryMs, signal);
    signal.throwIfAborted();
    const path = pathOf`/redeliveries/${shown.id}`;
    shown = progressIn((await api.send({ method: 'GET', path })).body);
  }
  report(run, shown);
}

/** Returns the progress in a response; fails unless it has all numbers. */
export function progressIn(body: unknown): RedeliveryShown {
  return withNumbers<RedeliveryShown>(body, 'total', 'delivered', 'failed', 'skipped', 'remaining');
}

export const nothingToSend = 'No failures; nothing to send again.';

const pollEveryMs = 1000;

function progressOf(
  { total, delivered, failed, remaining }: RedeliveryShown,
  width: number,
): string {
  const notes = [`${delivered} delivered`, `${failed} failed again`, `${remaining} left`];
  return progressText({ label: 'Redelivering', done: total - remaining, total, notes }, width);
}

function report({ terminal, json, leat }: ApiRun, shown: RedeliveryShown): void {
  const { total, delivered, failed, skipped } = shown;
  const left = skipped === 0 ? '' : ` ${skipped} skipped: they were being redelivered already.`;
  if (json) terminal.print(JSON.stringify(shown));
  else if (total === 0) terminal.print(nothingToSend);
  else terminal.print(`${delivered} of ${counted(total, 'failure')} delivered.${left}`);
  if (failed === 0) return;
  throw new CommandFailed(exitCodes.failed, `${failed} failed again: ${leat`failures`} shows why.`);
}
