import { open, stat } from 'node:fs/promises';
import type { Admin, Caller } from '../program/admin.ts';
import type { RandomBytes } from '../core/clock.ts';
import { checkCopy } from '../store/engine/sqlite/copy-check.ts';
import { bytesText } from './table.ts';
import { createFile } from '../files/new-file.ts';

export interface BackupFileDeps extends Pick<Caller, 'progress' | 'signal'> {
  readonly admin: Admin;
  readonly random: RandomBytes;
  /** Prints a line that is not part of the result. */
  readonly note: (line: string) => void;
}

/** Writes a checked copy of the store to a new file; returns the text to print. */
export async function writeBackup(file: string, deps: BackupFileDeps): Promise<string> {
  const { admin, random, signal, progress, note } = deps;
  let text = '';
  let size = 0;
  await createFile(file, random, async (draft) => {
    const handle = await open(draft, 'r+');
    const write = async (chunk: Uint8Array): Promise<void> => {
      signal.throwIfAborted();
      await handle.writeFile(chunk);
    };
    try {
      const target = async () => ({ path: draft, write });
      text = await admin.run('backup', {}, { progress, signal, target });
    } finally {
      await handle.close();
    }
    signal.throwIfAborted();
    ({ size } = await stat(draft));
    note(`Checking ${bytesText(size)} …`);
    checkCopy(draft);
    signal.throwIfAborted();
  });
  return `Wrote ${file}: ${bytesText(size)}, checked.\n${text}\nTo restore: leat restore ${file}`;
}
