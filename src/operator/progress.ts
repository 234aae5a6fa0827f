import type { ProgressPoint } from './command.ts';
import { countText } from './table.ts';

/** Shows how far a command is. */
export interface ProgressView {
  show(point: ProgressPoint): void;
  /** Removes what a terminal shows. */
  end(): void;
}

/** Where nobody watches, a command that takes no longer says nothing. */
const quietMs = 2000;

/** One line that is written over on a terminal; elsewhere a line for each quarter, or each minute. */
export function createProgressView(
  out: Pick<NodeJS.WriteStream, 'isTTY' | 'write'> & { readonly columns?: number | undefined },
  nowMs: () => number,
): ProgressView {
  let last: { readonly step: string; readonly quarter: number; readonly ms: number } | undefined;
  let shown = false;
  const began = nowMs();
  return {
    show: (point) => {
      const text = progressText(point);
      if (out.isTTY) {
        shown = true;
        // A line that is as wide as the terminal may wrap; a width that nobody knows is 0.
        const width = out.columns ?? 0;
        out.write(`\r${width === 0 ? text : text.slice(0, width - 1)}\u001b[K`);
        return;
      }
      const { step, done, total } = point;
      const quarter = total === undefined || total === 0 ? 0 : Math.floor((4 * done) / total);
      const ms = nowMs();
      if (ms - began < quietMs) return;
      if (last?.step === step && last.quarter === quarter && ms - last.ms < 60_000) return;
      last = { step, quarter, ms };
      out.write(`${text}\n`);
    },
    end: () => {
      if (shown) out.write('\r\u001b[K');
      shown = false;
    },
  };
}

function progressText({ step, done, total }: ProgressPoint): string {
  if (total === undefined) return `${step}: ${countText(done)}`;
  const percent = total === 0 ? 100 : Math.floor((100 * done) / total);
  return `${step}: ${countText(done)} of ${countText(total)} (${percent} %)`;
}
