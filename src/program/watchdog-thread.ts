import assert from 'node:assert/strict';
import { write } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { afterTick, movingAt, actionFor } from '../core/event-loop.ts';
import { entryText } from './log-text.ts';

/**
 * The program of the thread that `watchdog.ts` starts. Every process has one, so it loads little: with the clock of the
 * machine it would load node:crypto, a megabyte.
 */

/** What the thread starts with. */
export interface WatchdogData {
  /** Its only element changes with each beat of the event loop. */
  readonly beats: Int32Array<SharedArrayBuffer>;
  readonly seconds: number;
  readonly command: string;
  readonly isText: boolean;
}

const port = parentPort;
assert(port !== null, 'this is the program of a thread');
const { beats, seconds, command, isText } = workerData as WatchdogData;

/** The operator's commands that run. */
let running: readonly string[] = [];
port.on('message', (commands: readonly string[]) => {
  running = commands;
});

const tickMs = 1000;
/** The main thread responds within this time where it runs JavaScript. */
const responseMs = 2000;
/** A reader of the log that does not read must not keep the process. */
const writtenMs = 1000;
const framesMax = 50;

let state = movingAt(Atomics.load(beats, 0));
let used = process.cpuUsage();
tickLater();

function tickLater(): void {
  setTimeout(() => void tick().finally(tickLater), tickMs);
}

/**
 * Ticks of this thread do not pass while the process is stopped or the machine is suspended, so that time
 * does not count.
 */
async function tick(): Promise<void> {
  const { user, system } = process.cpuUsage(used);
  used = process.cpuUsage();
  const processorMs = (user + system) / 1000;
  state = afterTick(state, { beats: Atomics.load(beats, 0), processorMs });
  const action = actionFor(state, seconds);
  if (action === 'warn') await report(warnLevel, waits);
  if (action === 'end') await endUnlessDebugged();
}

const waits =
  'the event loop stands still and uses no processor time: it waits, for a disk or a debugger';
const debugged = 'the event loop stands still: the process does not end while a debugger is open';

async function endUnlessDebugged(): Promise<void> {
  const main = connectToMain();
  const answer = await main?.stack();
  // It has moved meanwhile.
  const isMoving = Atomics.load(beats, 0) !== state.beats;
  if (isMoving || answer?.isDebugged === true) {
    main?.disconnect();
    state = movingAt(Atomics.load(beats, 0));
    return isMoving ? undefined : report(warnLevel, debugged);
  }
  await report(
    fatalLevel,
    `the event loop has stood still for ${seconds} s, so this process ends${answer === undefined ? inNativeCode : ''}`,
    answer?.stack,
  );
  process.kill(process.pid, 'SIGKILL');
  // The first process of a container is still here: the kernel keeps signals of its own from it.
  main?.abort();
  // No further tick: native code as process 1 goes on until it returns.
  await new Promise(() => {});
}

const inNativeCode = '; the main thread runs native code, which has no stack here';

/** The main thread, as a debugger sees it. */
interface MainThread {
  /** Resolves to `undefined` where the main thread does not respond. */
  stack(): Promise<MainStack | undefined>;
  abort(): void;
  disconnect(): void;
}

/** The response of the inspector, as far as it is used. */
interface Evaluated {
  readonly result?: { readonly value?: MainStack };
}

interface MainStack {
  readonly stack: string;
  /** Whether the port of a debugger is open. */
  readonly isDebugged: boolean;
}

/** Evaluated between two instructions of the main thread: the error has the stack of what runs. */
const stackExpression = `(() => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = ${framesMax};
  const { stack } = new Error('the event loop stands still');
  Error.stackTraceLimit = stackTraceLimit;
  return { stack, isDebugged: process.getBuiltinModule('node:inspector').url() !== undefined };
})()`;
/** The frames of the expression itself. */
const ownFrame = /\n\s+at <anonymous>:\d+:\d+/g;

/** Returns `undefined` where Node has no inspector. */
function connectToMain(): MainThread | undefined {
  try {
    const { Session } = process.getBuiltinModule('node:inspector');
    const session = new Session();
    session.connectToMainThread();
    const evaluate = { expression: stackExpression, returnByValue: true };
    return {
      stack: () =>
        new Promise((resolve) => {
          setTimeout(() => resolve(undefined), responseMs);
          session.post('Runtime.evaluate', evaluate, (_error, response) => {
            const { value } = (Object(response) as Evaluated).result ?? {};
            resolve(value && { ...value, stack: value.stack.replaceAll(ownFrame, '') });
          });
        }),
      abort: () => session.post('Runtime.evaluate', { expression: 'process.abort()' }),
      disconnect: () => session.disconnect(),
    };
  } catch {
    return undefined;
  }
}

const warnLevel = 40;
const fatalLevel = 60;

/** Writes an entry as the log of the main thread would. */
function report(level: number, msg: string, stack?: string): Promise<void> {
  const entry = {
    level,
    time: Date.now(),
    command,
    ...(running.length === 0 ? {} : { running: running.join(', ') }),
    ...(stack === undefined ? {} : { err: { type: 'Error', stack } }),
    msg,
  };
  const line = isText ? entryText(entry, (_format, text) => text) : `${JSON.stringify(entry)}\n`;
  return new Promise((resolve) => {
    setTimeout(resolve, writtenMs);
    write(2, line, () => resolve());
  });
}
