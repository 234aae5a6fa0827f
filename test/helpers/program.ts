import { spawn, type SpawnOptions } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { rm } from 'node:fs/promises';
import { once } from 'node:events';
import { delimiter, join } from 'node:path';
import { accepts } from '../../src/operator/running-server.ts';
import { type EndOptions, endWithProcess } from './children.ts';
import { waitFor } from './wait.ts';

/** Programs of the machine that listen on loopback, each with a folder of its own. */

/** Returns the path of a program; `undefined` where it is not installed. */
export function programPath(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin'];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface Program {
  readonly pid: number;
  /** What it has written to its log. */
  log(): string;
  /** Ends it and removes its folder. */
  close(): Promise<void>;
}

export interface ProgramStart extends Pick<SpawnOptions, 'env' | 'uid' | 'gid'> {
  readonly args: readonly string[];
  /** Removed with the program. */
  readonly folder: string;
  /** The port of 127.0.0.1 at which it will listen. */
  readonly port: number;
  readonly end?: EndOptions;
}

/** Starts a program and waits until it listens. */
export async function startProgram(
  name: string,
  { args, folder, port, end, ...options }: ProgramStart,
): Promise<Program> {
  const path = programPath(name);
  if (path === undefined) throw new Error(`${name} is not installed`);
  const child = spawn(path, args, { ...options, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  endWithProcess(child, end);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
  }
  const close = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await waitFor(
      `${name} to listen`,
      () => {
        if (child.exitCode !== null) throw new Error(`${name} ended: ${text}`);
        return accepts({ port, host: '127.0.0.1' });
      },
      { progress: () => text },
    );
  } catch (error) {
    await close();
    throw error;
  }
  return { pid: child.pid ?? 0, log: () => text, close };
}
