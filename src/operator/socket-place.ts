import { lstatSync, readFileSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { codeOf, StartRefused } from '../core/errors.ts';

/** Where the operator's socket of a SQLite file is. */
export interface SocketPlace {
  /** The SQLite file, symbolic links resolved. */
  readonly file: string;
  /** Folder of the file. */
  readonly folder: string;
  /** The socket beside the file. */
  readonly socket: string;
  /** Names the socket elsewhere, where the path beside the file is too long for the system. */
  readonly pointer: string;
  /** Whether {@link socket} is too long for the system. */
  readonly isTooLong: boolean;
}

/** `sun_path` holds 108 bytes on Linux and 104 elsewhere, the last of them 0 (unix(7)). */
export const socketBytesMax: number = process.platform === 'linux' ? 107 : 103;

/** `leat.sock` beside `leat.db`; another file has a socket under its own name. */
export function socketPlaceOf(storeFile: string): SocketPlace {
  const file = realPath(storeFile);
  const folder = dirname(file);
  const name = basename(file).replace(/\.db$/, '');
  const socket = join(folder, `${name}.sock`);
  const isTooLong = Buffer.byteLength(socket) > socketBytesMax;
  return { file, folder, socket, pointer: `${socket}.path`, isTooLong };
}

/** Both sides must name one file alike, whatever links lead to it. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return resolve(file);
  }
}

/**
 * The socket to connect to; `undefined` when there is none. Throws `StartRefused` when somebody else
 * owns what stands there: it could be a program that asks for secrets.
 */
export function presentSocket(place: SocketPlace): string | undefined {
  const path = place.isTooLong ? pointedTo(place) : place.socket;
  if (path === undefined) return undefined;
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  if (!stat.isSocket()) {
    throw new StartRefused(`${path} is not a socket: remove it and restart the server.`);
  }
  refuseForeign(path, stat.uid, place);
  return path;
}

function pointedTo(place: SocketPlace): string | undefined {
  const stat = lstatSync(place.pointer, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  if (!stat.isFile()) throw new StartRefused(`${place.pointer} is not a file: remove it.`);
  refuseForeign(place.pointer, stat.uid, place);
  const path = readFileSync(place.pointer, 'utf8').trim();
  const folder = lstatSync(dirname(path), { throwIfNoEntry: false });
  if (folder === undefined) return undefined;
  refuseForeign(dirname(path), folder.uid, place);
  return path;
}

/** The system's administrator may command the server of another user, but no stranger's program. */
function refuseForeign(path: string, owner: number, { file }: SocketPlace): void {
  const self = process.geteuid?.();
  if (self === undefined || owner === self) return;
  if (self === 0 && owner === ownerOf(file)) return;
  throw new StartRefused(
    `${path} belongs to another user (${owner}): run this command as the user of the server.`,
  );
}

function ownerOf(file: string): number | undefined {
  try {
    return lstatSync(file).uid;
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    return undefined;
  }
}
