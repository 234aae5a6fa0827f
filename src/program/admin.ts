import type { Config } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused, StoreInUse } from '../core/errors.ts';
import { askServer } from '../operator/client.ts';
import type { Args, Call } from '../operator/command.ts';
import { commandOf } from '../operator/commands.ts';
import { presentSocket, type SocketPlace, socketPlaceOf } from '../operator/socket-place.ts';
import { sleep } from '../core/sleep.ts';
import { openServiceStore } from './store.ts';

/**
 * Runs the operator's commands: in the server, through its socket, while one holds the SQLite file;
 * else on a store that is opened for the command. Two processes never hold the file.
 */
export interface Admin {
  /** Returns what to print. Throws `StartRefused` with a line for the operator. */
  run(command: string, args?: Args, caller?: Partial<Caller>): Promise<string>;
}

/** What the command line does with progress and files of a command. */
export interface Caller extends Pick<Call, 'progress' | 'signal'> {
  /** The empty file that receives a file of the command. */
  readonly target: () => Promise<FileTarget>;
}

/** A file that the command line made. */
export interface FileTarget {
  readonly path: string;
  /** Appends bytes that arrive from the server. */
  write(chunk: Uint8Array): Promise<void>;
}

export interface AdminDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
}

/** A server that starts or stops holds the file without listening: the other way is tried again. */
const triesMax = 5;
const betweenMs = 300;

export function createAdmin(deps: AdminDeps): Admin {
  const { config, clock } = deps;
  const { store } = config;
  const file = store.engine === 'sqlite' ? store.file : undefined;
  const place = file === undefined ? undefined : socketPlaceOf(file);
  return {
    run: async (command, args = {}, given = {}) => {
      const caller: Caller = { ...silent, ...given };
      for (let tries = 1; ; tries += 1) {
        const said = place && (await askRunning(place, command, args, caller));
        if (said !== undefined) return said;
        try {
          return await runHere(deps, command, args, caller);
        } catch (error) {
          if (!(error instanceof StoreInUse) || place === undefined) throw error;
          if (tries >= triesMax) throw withoutSocket(error, place);
          await sleep(clock, betweenMs, caller.signal);
          caller.signal.throwIfAborted();
        }
      }
    },
  };
}

const silent: Caller = {
  progress: () => {},
  signal: new AbortController().signal,
  target: () => Promise.reject(new Error('The caller takes no file.')),
};

async function askRunning(
  place: SocketPlace,
  command: string,
  args: Args,
  { target, ...caller }: Caller,
): Promise<string | undefined> {
  const path = presentSocket(place);
  if (path === undefined) return undefined;
  return askServer(
    path,
    { command, args },
    {
      ...caller,
      file: () => {
        const made = target();
        return {
          write: async (chunk) => (await made).write(chunk),
          end: async () => void (await made),
        };
      },
    },
  );
}

async function runHere(
  deps: AdminDeps,
  command: string,
  args: Args,
  { target, ...caller }: Caller,
): Promise<string> {
  const run = commandOf(command);
  if (run === undefined) throw new Error(`There is no command ${command}.`);
  const store = await openServiceStore(deps);
  try {
    return await run({ ...deps, store }, args, {
      ...caller,
      file: async (write) => write((await target()).path),
    });
  } finally {
    await store.close();
  }
}

function withoutSocket(error: StoreInUse, { socket }: SocketPlace): StartRefused {
  return new StartRefused(
    `${error.message}. A server of this version would listen on ${socket}: restart it, or see in its log why it does not.`,
    { cause: error },
  );
}
