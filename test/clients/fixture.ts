import { execFile, type ExecFileException } from 'node:child_process';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { endWithProcess } from '../helpers/children.ts';
import {
  printedCaFile,
  bootstrapClient,
  compileCache,
  createTempStore,
  type TempStore,
  type Running,
  startLeat,
} from '../helpers/leat.ts';

/**
 * The real program in a fresh folder with `LEAT_TLS=local`, as other clients see it: over HTTPS, with
 * the name `localhost:<port>` and a certificate that has to be trusted first.
 */

export interface Fixture extends Running {
  readonly tempStore: TempStore;
  /** `localhost:<port>`, the domain of the tenant. */
  readonly domain: string;
  /** The CA file for clients: the value of NODE_EXTRA_CA_CERTS. */
  readonly caFile: string;
  close(): Promise<void>;
}

export { bootstrapClient };

/** Starts the program with short retries, so that a delivery fails soon. */
export async function openFixture(
  settings: Readonly<Record<string, string>> = {},
): Promise<Fixture> {
  const tempStore = await createTempStore();
  return openAt(tempStore, settings).catch(async (error: unknown) => {
    await tempStore.remove();
    throw error;
  });
}

/** Restarts the program on the same store and port. */
export function reopenFixture({ tempStore, port }: Fixture): Promise<Fixture> {
  return openAt(tempStore, { LEAT_PORT: String(port) });
}

/** Restarts the program with a log that is older than its retention. */
export async function reopenLater(fixture: Fixture): Promise<Fixture> {
  await fixture.stop();
  const db = new DatabaseSync(fixture.tempStore.file);
  const eightDaysMs = 8 * 86_400_000;
  db.prepare('update events set published_at = published_at - ?').run(eightDaysMs);
  db.close();
  return reopenFixture(fixture);
}

async function openAt(
  tempStore: TempStore,
  settings: Readonly<Record<string, string>>,
): Promise<Fixture> {
  const leat = await startLeat(tempStore, {
    LEAT_TLS: 'local',
    LEAT_RETRY_DELAYS_MS: '10,20,30',
    ...settings,
  });
  return {
    ...leat,
    tempStore,
    domain: `localhost:${leat.port}`,
    caFile: printedCaFile(leat.output()) ?? '',
    close: async () => {
      await leat.kill();
      await tempStore.remove();
    },
  };
}

export interface Ended {
  /** Its exit code; `null` after a signal. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end with a PATH on which `node` is this one, and with `env`. */
export function runProgram(
  file: string,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd?: string,
): Promise<Ended> {
  const options = {
    env: {
      PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
      ...compileCache,
      ...env,
    },
    ...(cwd === undefined ? {} : { cwd }),
  };
  return new Promise((resolve) => {
    const ended = (error: ExecFileException | null, stdout: string, stderr: string): void => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : null;
      resolve({ code, stdout, stderr });
    };
    endWithProcess(execFile(file, words, options, ended));
  });
}
