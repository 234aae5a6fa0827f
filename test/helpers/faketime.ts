import { globSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Scope } from './cluster.ts';

/** The wall clock of programs that a test starts, as the real libfaketime gives it to them: of all their threads and libraries. */
export interface Faketime {
  /** For the environment of the programs. */
  readonly env: Readonly<Record<string, string>>;
  /** Sets it; the programs have it from their next call on. Their monotonic clock stays right. */
  shift(aheadSeconds: number): void;
}

const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');

/** Returns why this machine has no libfaketime. */
export const noFaketime = (): string | false =>
  library === undefined && 'libfaketime is not installed';

/** Throws where {@link noFaketime} returns a reason. */
export function createFaketime(scope: Scope): Faketime {
  if (library === undefined) throw new Error('libfaketime is not installed');
  const folder = mkdtempSync(join(tmpdir(), 'leat-faketime-'));
  scope.after(async () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'ahead');
  const shift = (seconds: number): void => {
    // The programs never read a half-written file.
    writeFileSync(`${file}.next`, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    renameSync(`${file}.next`, file);
  };
  shift(0);
  const env = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
  return { env, shift };
}
