import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** The wall clock of a program that a test starts. */
export interface ShiftedClock {
  /** For the environment of the program. */
  readonly settings: Readonly<Record<string, string>>;
  /** Sets it; the program follows within some milliseconds. */
  shift(aheadMs: number): void;
}

const module = new URL('shifted-clock.mjs', import.meta.url).href;

export function createShiftedClock(t: TestContext, aheadMs = 0): ShiftedClock {
  const folder = mkdtempSync(join(tmpdir(), 'leat-clock-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'ahead');
  const shift = (ms: number): void => {
    // The program never reads a half-written file.
    writeFileSync(`${file}.next`, String(ms));
    renameSync(`${file}.next`, file);
  };
  shift(aheadMs);
  return { settings: { NODE_OPTIONS: `--import=${module}`, SHIFTED_CLOCK: file }, shift };
}
