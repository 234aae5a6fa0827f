import { tmpdir } from 'node:os';
import { resolve } from 'node:path';

/** Returns the folder for temporary files as an absolute path without `.` and double slashes, whatever TMPDIR is. */
export function tempFolder(): string {
  return resolve(tmpdir());
}
