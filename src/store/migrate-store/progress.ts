/** Receives the progress of a migration. */
export interface MigrateProgressView {
  show(at: MigratePoint): void;
  end(): void;
}

export interface MigratePoint {
  readonly step: 'copying' | 'comparing';
  readonly table: string;
  /** Rows of all tables. */
  readonly done: number;
  readonly total: number;
}

const barWidth = 30;

/** Shows a bar on a terminal, and elsewhere a line for each tenth. */
export function createMigrateProgress(
  out: Pick<NodeJS.WriteStream, 'isTTY' | 'write'> & { readonly columns?: number | undefined },
  nowMs: () => number,
): MigrateProgressView {
  let begun: { step: string; done: number; ms: number; tenths: number } | undefined;
  return {
    show: ({ step, table, done, total }) => {
      if (begun?.step !== step) begun = { step, done, ms: nowMs(), tenths: -1 };
      const share = total === 0 ? 1 : done / total;
      const left = leftText(nowMs() - begun.ms, done - begun.done, total - done);
      const text = `${step} ${table}: ${countText(done)} of ${countText(total)} rows${left}`;
      if (out.isTTY) {
        const bar = '#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.');
        out.write(`\r${fitting(`${bar} ${text}`, out.columns)}\u001b[K`);
      } else if (Math.floor(share * 10) > begun.tenths) {
        begun.tenths = Math.floor(share * 10);
        out.write(`${text}\n`);
      }
    },
    end: () => {
      if (out.isTTY) out.write('\r\u001b[K');
    },
  };
}

/** Estimated from the pace of the step so far, which is unknown at its first point. */
function leftText(passedMs: number, done: number, left: number): string {
  return done === 0 ? '' : `, ${Math.ceil(((passedMs / done) * left) / 1000)} s left`;
}

/**
 * A line that wraps cannot be overwritten, and one as wide as the terminal may wrap. The width is 0
 * where the terminal does not know it.
 */
function fitting(line: string, columns = 0): string {
  return columns === 0 ? line : line.slice(0, columns - 1);
}

export const countText = (rows: number): string => rows.toLocaleString('en-US');
