import { open, stat } from 'node:fs/promises';
import type { Admin, Caller } from '../program/admin.ts';
import type { RandomBytes } from '../core/clock.ts';
import { checkCopy } from '../store/sqlite/copy-check.ts';
import { bytesText } from './table.ts';
import { createFile } from '../files/new-file.ts';

export interface BackupFileDeps extends Pick<Caller, 'progress' | 'signal'> {
  readonly admin: Admin;
  readonly random: RandomBytes;
  /** Shows a line beside the result. */
  readonly note: (line: string) => void;
}

/** Writes a checked copy of the store to a new file; returns what to print. */
export async function writeBackup(file: string, deps: BackupFileDeps): Promise<string> {
  const { admin, random, signal, progress, note } = deps;
  let said = '';
  let size = 0;
  await createFile(file, random, async (draft) => {
    const handle = await open(draft, 'r+');
    const write = async (chunk: Uint8Array): Promise<void> => {
      signal.throwIfAborted();
      await handle.writeFile(chunk);
    };
    try {
      const target = async () => ({ path: draft, write });
      said = await admin.run('backup', {}, { progress, signal, target });
    } finally {
      await handle.close();
    }
    signal.throwIfAborted();
    ({ size } = await stat(draft));
    note(`Checking ${bytesText(size)} …`);
    checkCopy(draft);
    signal.throwIfAborted();
  });
  return `Wrote ${file}: ${bytesText(size)}, checked.\n${said}\nTo restore: leat restore ${file}`;
}
