import { sleep } from '../core/sleep.ts';
import type { RedeliveryShown } from '../schemas/redeliveries.ts';
import { type ApiRun, withNumbers } from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { pathOf } from './http/api-client.ts';
import { counted, progressText } from './terminal/progress.ts';

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
  reportRedelivery(run, shown);
}

/** Returns the progress in a response; fails unless it has all numbers. */
export function progressIn(body: unknown): RedeliveryShown {
  return withNumbers<RedeliveryShown>(body, 'total', 'delivered', 'failed', 'skipped', 'remaining');
}

const pollEveryMs = 1000;

function progressOf(
  { total, delivered, failed, remaining }: RedeliveryShown,
  width: number,
): string {
  const notes = [`${delivered} delivered`, `${failed} failed again`, `${remaining} left`];
  return progressText({ label: 'Redelivering', done: total - remaining, total, notes }, width);
}

/** Prints the result of a redelivery. Throws {@link CommandFailed} when some failed again. */
export function reportRedelivery({ terminal, json, leat }: ApiRun, shown: RedeliveryShown): void {
  const { total, delivered, failed, skipped } = shown;
  const left = skipped === 0 ? '' : ` ${skipped} skipped: they were being redelivered already.`;
  if (json) terminal.print(JSON.stringify(shown));
  else if (total === 0) terminal.print('No failures; nothing to send again.');
  else terminal.print(`${delivered} of ${counted(total, 'failure')} delivered.${left}`);
  if (failed === 0) return;
  throw new CommandFailed(exitCodes.failed, `${failed} failed again: ${leat`failures`} shows why.`);
}
