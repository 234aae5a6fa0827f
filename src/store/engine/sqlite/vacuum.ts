import { statSync } from 'node:fs';
import { openConnection, type SqliteLocation } from './connection.ts';
import { refusalOf } from './refusal.ts';

/**
 * Writes the file again, without its free pages and so that it returns space to the disk from then
 * on. Locks the file meanwhile, and needs as much free space again. An interruption leaves the file
 * as it was. Returns the sizes before and after; throws `StartRefused`.
 */
export function vacuum(location: SqliteLocation & { readonly file: string }): {
  readonly before: number;
  readonly after: number;
} {
  const { file } = location;
  const connection = openConnection(location);
  try {
    connection.exec('pragma wal_checkpoint(truncate)');
    const before = statSync(file).size;
    // The setting takes effect with the next vacuum (sqlite.org/pragma.html#pragma_auto_vacuum).
    connection.exec('pragma auto_vacuum = incremental; vacuum; pragma wal_checkpoint(truncate)');
    return { before, after: statSync(file).size };
  } catch (error) {
    throw refusalOf(file, error);
  } finally {
    connection.close();
  }
}
