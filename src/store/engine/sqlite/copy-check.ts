import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from 'node:sqlite';
import { StartRefused } from '../../../core/errors.ts';
import { applicationId } from './schema.ts';
import { refusalOf } from './refusal.ts';

/**
 * Checks that a file is a complete copy of a store by reading all of it. Writes nothing, and
 * creates no file next to it. Throws `StartRefused` with one line that says what is wrong.
 */
export function checkCopy(file: string): void {
  const { size } = statSync(file);
  if (size < 512) throw new StartRefused(`${file} is not a backup of a store: it is too short.`);
  let connection: DatabaseSync | undefined;
  try {
    // The file is not written: without this, SQLite would create a WAL next to it.
    connection = new DatabaseSync(`${pathToFileURL(file).href}?immutable=1`, { readOnly: true });
    connection.exec('pragma cell_size_check = on; pragma trusted_schema = off');
    refuseOthers(connection, file);
    refuseDamaged(connection, file);
  } catch (error) {
    if (error instanceof StartRefused) throw error;
    throw new StartRefused(refusalOf(file, error).message.replace('LEAT_STORE: ', ''), {
      cause: error,
    });
  } finally {
    connection?.close();
  }
}

function refuseOthers(connection: DatabaseSync, file: string): void {
  const row = connection.prepare('pragma application_id').get();
  if (row?.['application_id'] === applicationId) return;
  throw new StartRefused(`${file} is not a backup of a store: another program made it.`);
}

function refuseDamaged(connection: DatabaseSync, file: string): void {
  const [first] = connection.prepare('pragma quick_check(1)').all();
  const finding = String(first?.['quick_check']);
  if (finding === 'ok') return;
  throw new StartRefused(`${file} is damaged (${finding}): take another backup.`);
}
