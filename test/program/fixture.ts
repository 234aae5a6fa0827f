import pino from 'pino';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { ServiceDeps } from '../../src/program/service.ts';
import { bootstrapClient } from '../helpers/leat.ts';

/** Returns the configuration of a service in memory on a port; throws when a setting is wrong. */
export function configOf(env: Readonly<Record<string, string>>, port: number): Config {
  const read = readConfig({
    LEAT_PORT: String(port),
    LEAT_STORE: 'sqlite::memory:',
    LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
    ...env,
  });
  if ('problems' in read) throw new Error(read.problems.join('\n'));
  return read.config;
}

/** Returns what a service needs: the clock of the machine, and a log that prints nothing. */
export function depsOf(config: Config): ServiceDeps {
  const log = pino({ level: 'silent' });
  return { config, clock: systemClock, random: systemRandom, log, version: 'test' };
}
