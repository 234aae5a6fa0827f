import { readFile } from 'node:fs/promises';
import type { Outbox } from '../alerting/outbox.ts';
import type { NotifiedState } from '../alerting/rules.ts';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf } from '../core/errors.ts';
import { writeAtomically } from '../files/atomic-write.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import type { Snapshots } from './monitor-poll.ts';

/** The state between two polls. */
export interface MonitorState {
  readonly version: 1;
  /** Origin of the server. */
  readonly server: string;
  /** Absent before the first poll. */
  readonly seen?: Snapshots;
  readonly alarm: NotifiedState;
  readonly outbox: Outbox;
}

/**
 * Reads the state in a file; `undefined` when there is no file. Throws {@link CommandFailed} when the
 * file holds something else or the state of another server: starting from scratch would report every
 * open failure again.
 */
export async function readState(file: string, server: string): Promise<MonitorState | undefined> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw unusable(file, `cannot be read (${codeOf(error) ?? 'unreadable'})`);
  });
  if (text === undefined) return undefined;
  const state = stateIn(text);
  if (state === undefined) throw unusable(file, 'was not written by the monitor');
  if (state.server !== server) throw unusable(file, `belongs to ${state.server}`);
  return state;
}

/** Writes the state atomically. */
export async function writeState(
  file: string,
  state: MonitorState,
  random: RandomBytes,
): Promise<void> {
  try {
    await writeAtomically(file, `${JSON.stringify(state)}\n`, { random, mode: 0o600 });
  } catch (error) {
    throw unusable(file, `cannot be written (${codeOf(error) ?? 'unreadable'})`);
  }
}

function stateIn(text: string): MonitorState | undefined {
  try {
    const state = Object(JSON.parse(text)) as Record<string, unknown>;
    const { version, server, seen, alarm, outbox } = state;
    const streams = (Object(alarm) as { streams?: unknown }).streams;
    const isState =
      version === 1 &&
      typeof server === 'string' &&
      [seen ?? {}, streams, outbox].every((part) => typeof part === 'object' && part !== null);
    return isState ? (state as unknown as MonitorState) : undefined;
  } catch {
    return undefined;
  }
}

function unusable(file: string, problem: string): CommandFailed {
  const way = 'name another file, or remove it to report every open failure again';
  return new CommandFailed(exitCodes.usage, `--state: ${file} ${problem}: ${way}.`);
}
