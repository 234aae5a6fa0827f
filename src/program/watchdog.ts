import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import { thread } from '../core/asset.ts';
import type { Clock } from '../core/clock.ts';
import type { WatchdogData } from './watchdog-thread.ts';

/**
 * Ends this process when its event loop stands still, so that a mistake that would freeze it for ever is a
 * crash, from which a restart recovers (docs/adr/0053-a-frozen-event-loop-ends-the-process.md).
 */
export interface Watchdog {
  /** Begins to watch. Call it after migrations, which may hold the event loop. */
  begin(): void;
  /** Names an operator's command in the last line of the process while it runs. */
  during<T>(command: string, work: Promise<T>): Promise<T>;
}

export interface WatchdogDeps {
  /** LEAT_WATCHDOG_SECONDS. */
  readonly seconds: number;
  /** The command of the process, for its last line. */
  readonly command: string;
  /** Whether lines of the log are text instead of JSON. */
  readonly isText: boolean;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Pick<Logger, 'warn'>;
}

/** Twice in each tick of the thread. */
const beatMs = 500;

export function createWatchdog(deps: WatchdogDeps): Watchdog {
  const running: string[] = [];
  let worker: Worker | undefined;
  // False positive: this is a thread, not a browser window.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  const changed = (): void => worker?.postMessage(running);
  return {
    begin: () => {
      if (deps.seconds === 0) return;
      worker = startThread(deps);
      changed();
    },
    during: async (command, work) => {
      running.push(command);
      changed();
      try {
        return await work;
      } finally {
        running.splice(running.indexOf(command), 1);
        changed();
      }
    },
  };
}

/** The process goes on without a watchdog when there is no room for a thread. */
function startThread({ seconds, command, isText, clock, log }: WatchdogDeps): Worker | undefined {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const beat = (): void => {
    Atomics.add(beats, 0, 1);
    clock.after(beatMs, beat);
  };
  const failed = (error: unknown): void =>
    log.warn({ err: error }, 'the watchdog does not run: a frozen event loop does not end');
  try {
    const program = thread('program/watchdog-thread.ts');
    const worker = new Worker(program.source, {
      eval: program.eval,
      workerData: { beats, seconds, command, isText } satisfies WatchdogData,
      name: 'watchdog',
      // What is preloaded into the main thread must not freeze this one.
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 2 },
    });
    worker.on('error', failed);
    worker.unref();
    beat();
    return worker;
  } catch (error) {
    failed(error);
    return undefined;
  }
}
