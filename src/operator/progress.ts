import type { ProgressPoint } from './command.ts';
import { countText } from './table.ts';

/** Shows the progress of a command. */
export interface ProgressView {
  show(point: ProgressPoint): void;
  /** Clears the line on a terminal. */
  end(): void;
}

/** Without a terminal, a command shorter than this prints no progress. */
const quietMs = 2000;

/** Creates a view: one updated line on a terminal, else a line per quarter or per minute. */
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
        // A line as wide as the terminal may wrap; an unknown width is 0.
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
