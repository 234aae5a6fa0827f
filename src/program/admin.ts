import type { Config } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused, StoreInUse } from '../core/errors.ts';
import { runOnServer } from '../operator/client.ts';
import type { Args, Call } from '../operator/command.ts';
import { commandOf } from '../operator/commands.ts';
import {
  presentSocket,
  type SocketLocation,
  socketLocationOf,
} from '../operator/socket-location.ts';
import { refuseMissingStore } from '../operator/store-file.ts';
import { sleep } from '../core/sleep.ts';
import { openServiceStore } from './store.ts';

/**
 * Runs the operator's commands: in the server that holds the SQLite file, through its socket, else
 * on a store that is opened for the command. Two processes never hold the file.
 */
export interface Admin {
  /** Returns the text to print. Throws `StartRefused` with a line for the operator. */
  run(command: string, args?: Args, caller?: Partial<Caller>): Promise<string>;
}

/** Receives progress and files of a command. */
export interface Caller extends Pick<Call, 'progress' | 'signal'> {
  /** Creates the empty file that receives a file of the command. */
  readonly target: () => Promise<FileTarget>;
}

/** A file that the command line created. */
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

/** A server that starts or stops holds the file without listening: both ways are retried. */
const triesMax = 5;
const retryDelayMs = 300;

export function createAdmin(deps: AdminDeps): Admin {
  const { config, clock } = deps;
  const { store } = config;
  const file = store.engine === 'sqlite' ? store.file : undefined;
  const location = file === undefined ? undefined : socketLocationOf(file);
  return {
    run: async (command, args = {}, options = {}) => {
      const caller: Caller = { ...silent, ...options };
      for (let tries = 1; ; tries += 1) {
        const text = location && (await runInServer(location, command, args, caller));
        if (text !== undefined) return text;
        try {
          return await runHere(deps, command, args, caller);
        } catch (error) {
          if (!(error instanceof StoreInUse) || location === undefined) throw error;
          if (tries >= triesMax) throw withoutSocket(error, location);
          await sleep(clock, retryDelayMs, caller.signal);
          caller.signal.throwIfAborted();
        }
      }
    },
  };
}

const silent: Caller = {
  progress: () => {},
  signal: new AbortController().signal,
  target: () => Promise.reject(new Error('The caller accepts no file.')),
};

async function runInServer(
  location: SocketLocation,
  command: string,
  args: Args,
  { target, ...caller }: Caller,
): Promise<string | undefined> {
  const path = presentSocket(location);
  if (path === undefined) return undefined;
  return runOnServer(
    path,
    { command, args },
    {
      ...caller,
      file: () => {
        const created = target();
        return {
          write: async (chunk) => (await created).write(chunk),
          end: async () => void (await created),
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
  refuseMissingStore(deps.config);
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

function withoutSocket(error: StoreInUse, { socket }: SocketLocation): StartRefused {
  return new StartRefused(
    `${error.message}. A server of this version would listen on ${socket}: restart it, or find in its log why it does not.`,
    { cause: error },
  );
}
