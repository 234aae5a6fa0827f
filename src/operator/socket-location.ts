import { lstatSync, readFileSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { codeOf, StartRefused } from '../core/errors.ts';
import { tempFolder } from '../files/temp-folder.ts';

/** Paths of the operator's socket of a SQLite file. */
export interface SocketLocation {
  /** The SQLite file, symbolic links resolved. */
  readonly file: string;
  /** Folder of the file. */
  readonly folder: string;
  /** The socket next to the file. */
  readonly socket: string;
  /** File with the path of the socket, where {@link socket} is too long for the system. */
  readonly pointer: string;
  /** Whether {@link socket} is too long for the system. */
  readonly isTooLong: boolean;
}

/** `sun_path` holds 108 bytes on Linux and 104 elsewhere, the last of them 0 (unix(7)). */
export const socketBytesMax: number = process.platform === 'linux' ? 107 : 103;

/** Name of the socket in a folder of its own, where the path next to the file is too long. */
export const socketName = 'leat.sock';

/** Folders that the folder of such a socket may be in; TMPDIR can be too long as well. */
export function socketParents(): readonly string[] {
  const parents = process.platform === 'win32' ? [tempFolder()] : [tempFolder(), '/tmp'];
  return parents.filter(
    (parent) => Buffer.byteLength(join(parent, 'leat-XXXXXX', socketName)) <= socketBytesMax,
  );
}

/** Returns `leat.sock` next to `leat.db`; other files have a socket of their own name. */
export function socketLocationOf(storeFile: string): SocketLocation {
  const file = realPath(storeFile);
  const folder = dirname(file);
  const name = basename(file).replace(/\.db$/, '');
  const socket = join(folder, `${name}.sock`);
  const isTooLong = Buffer.byteLength(socket) > socketBytesMax;
  return { file, folder, socket, pointer: `${socket}.path`, isTooLong };
}

/** Resolves links, so that server and command line find the same socket. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return resolve(file);
  }
}

/**
 * Returns the path of the present socket. Throws `StartRefused` when another user owns it, as that
 * user's program could ask for secrets, and when the folder of the store is closed to this user.
 */
export function presentSocket(location: SocketLocation): string | undefined {
  try {
    return ownSocket(location);
  } catch (error) {
    if (codeOf(error) !== 'EACCES') throw error;
    throw new StartRefused(
      `LEAT_STORE: this user cannot reach ${location.file}: run this command as the user of the server`,
      { cause: error },
    );
  }
}

function ownSocket(location: SocketLocation): string | undefined {
  const path = location.isTooLong ? pointedTo(location) : location.socket;
  if (path === undefined) return undefined;
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  if (!stat.isSocket()) {
    throw new StartRefused(`${path} is not a socket: remove it and restart the server.`);
  }
  refuseForeign(path, stat.uid, location);
  return path;
}

function pointedTo(location: SocketLocation): string | undefined {
  const stat = lstatSync(location.pointer, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  if (!stat.isFile()) throw new StartRefused(`${location.pointer} is not a file: remove it.`);
  refuseForeign(location.pointer, stat.uid, location);
  const path = readFileSync(location.pointer, 'utf8').trim();
  const folder = lstatSync(dirname(path), { throwIfNoEntry: false });
  if (folder === undefined) return undefined;
  refuseForeign(dirname(path), folder.uid, location);
  return path;
}

/** Allows only the own user and, for root, the owner of the store. */
function refuseForeign(path: string, owner: number, { file }: SocketLocation): void {
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
