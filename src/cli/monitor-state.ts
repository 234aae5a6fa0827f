import { readFile } from 'node:fs/promises';
import type { NotifiedState } from '../alerting/rules.ts';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf } from '../core/errors.ts';
import type { Outbox } from '../alerting/outbox.ts';
import { writeWhole } from '../files/atomic-write.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import type { Seen } from './monitor-poll.ts';

/** What one look leaves to the next. */
export interface MonitorState {
  readonly version: 1;
  /** Origin of the server. */
  readonly server: string;
  /** Absent before the first look. */
  readonly seen?: Seen;
  readonly alarm: NotifiedState;
  readonly outbox: Outbox;
}

/**
 * The state in a file; `undefined` when there is no file. Throws {@link CommandFailed} when it holds
 * something else or is about another server: to begin anew would tell of every open failure again.
 */
export async function readState(file: string, server: string): Promise<MonitorState | undefined> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw refused(file, `cannot be read (${codeOf(error) ?? 'unreadable'})`);
  });
  if (text === undefined) return undefined;
  const state = stateIn(text);
  if (state === undefined) throw refused(file, 'is not what leat monitor writes');
  if (state.server !== server) throw refused(file, `is about ${state.server}`);
  return state;
}

/** Writes the state, whole or not at all. */
export async function writeState(
  file: string,
  state: MonitorState,
  random: RandomBytes,
): Promise<void> {
  try {
    await writeWhole(file, `${JSON.stringify(state)}\n`, { random, mode: 0o600 });
  } catch (error) {
    throw refused(file, `cannot be written (${codeOf(error) ?? 'unreadable'})`);
  }
}

function stateIn(text: string): MonitorState | undefined {
  try {
    const state = Object(JSON.parse(text)) as Record<string, unknown>;
    const { version, server, seen, alarm, outbox } = state;
    const streams = (Object(alarm) as { streams?: unknown }).streams;
    const isOurs =
      version === 1 &&
      typeof server === 'string' &&
      [seen ?? {}, streams, outbox].every((part) => typeof part === 'object' && part !== null);
    return isOurs ? (state as unknown as MonitorState) : undefined;
  } catch {
    return undefined;
  }
}

function refused(file: string, why: string): CommandFailed {
  const way = 'name another file, or remove it to be told of every open failure once more';
  return new CommandFailed(exitCodes.usage, `--state: ${file} ${why}: ${way}.`);
}
