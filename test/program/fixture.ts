import { once } from 'node:events';
import type { Socket } from 'node:net';
import pino from 'pino';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { Clock } from '../../src/core/clock.ts';
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
  const texts = new Map<string, string>();
  return { config, texts, clock: systemClock, random: systemRandom, log, version: 'test' };
}

/** The service waits five seconds for requests that never end; with this clock 50 ms. */
export const hurriedClock: Clock = {
  ...systemClock,
  after: (delayMs, action) => systemClock.after(delayMs / 100, action),
};

/** Sends the head of a request over a connection. Resolves once the service waits for its body. */
export async function sendHead(socket: Socket, mediaType: string, length: number): Promise<void> {
  socket.write('POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n');
  socket.write(`Content-Type: ${mediaType}\r\nContent-Length: ${length}\r\n\r\n`);
  // The 100 Continue.
  await once(socket, 'data');
}
