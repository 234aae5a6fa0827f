/** Hears how far a move is. */
export interface MoveProgressListener {
  show(at: MovePoint): void;
  end(): void;
}

export interface MovePoint {
  readonly step: 'copying' | 'comparing';
  readonly table: string;
  /** Rows of all tables. */
  readonly done: number;
  readonly total: number;
}

const barWidth = 30;

/** A bar on a terminal; elsewhere a line for each tenth. */
export function createMoveProgress(
  out: Pick<NodeJS.WriteStream, 'isTTY' | 'write'>,
  nowMs: () => number,
): MoveProgressListener {
  let begun: { step: string; done: number; ms: number; tenths: number } | undefined;
  return {
    show: ({ step, table, done, total }) => {
      if (begun?.step !== step) begun = { step, done, ms: nowMs(), tenths: -1 };
      const share = total === 0 ? 1 : done / total;
      const perRow = (nowMs() - begun.ms) / Math.max(1, done - begun.done);
      const leftS = Math.ceil((perRow * (total - done)) / 1000);
      const text = `${step} ${table}: ${countText(done)} of ${countText(total)} rows, ${leftS} s left`;
      if (out.isTTY) {
        const bar = '#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.');
        out.write(`\r${bar} ${text}\u001b[K`);
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

export const countText = (rows: number): string => rows.toLocaleString('en-US');
