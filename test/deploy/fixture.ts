import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments } from 'yaml';
import { type Config, limits, readConfig } from '../../src/config.ts';
import { readMessageSettings } from '../../src/messages/settings.ts';
import { deliveryOptions } from '../../src/schemas/delivery-options.ts';

/** The root of the repository, with a slash at its end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

export function read(path: string): string {
  return readFileSync(`${root}${path}`, 'utf8');
}

/** Returns the only document of a YAML file. Its form is that of the type: the tests check what matters. */
export function readYaml<T>(path: string): T {
  return parse(read(path), { merge: true }) as T;
}

/** Returns every document of a YAML file. */
export function readYamls<T>(path: string): T[] {
  return parseAllDocuments(read(path), { merge: true }).map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS() as T;
  });
}

type Variables = Readonly<Record<string, string | number | undefined>>;

/**
 * Reads the settings as the program does. Fails when a value is not accepted, and when a variable that begins
 * with `LEAT_` is no setting.
 */
export function configOf(variables: Variables): Config {
  const texts = Object.fromEntries(
    Object.entries(variables).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  );
  const reading = readConfig(texts);
  assert.ok('config' in reading, 'problems' in reading ? reading.problems.join('\n') : '');
  assert.deepEqual(reading.warnings, []);
  return reading.config;
}

/** The port of the message API without settings. */
export function messagePort(): number {
  const reading = readMessageSettings(new Map(), { alone: false });
  assert.ok('settings' in reading);
  return reading.settings.port;
}

/** An instruction of a Dockerfile. */
export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** Returns the instructions of a Dockerfile in their order, with their continued lines joined. */
export function instructionsOf(dockerfile: string): Instruction[] {
  return dockerfile
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [name = '', ...words] = line.split(' ');
      return { name, text: words.join(' ') };
    });
}

/** Returns the words of an instruction in its JSON form. */
export function wordsOf(instructions: readonly Instruction[], name: string): string[] {
  const text = instructions.findLast((each) => each.name === name)?.text;
  assert.ok(text !== undefined, name);
  return JSON.parse(text.slice(text.indexOf('['))) as string[];
}

/** Returns why a test of a tool is skipped; `false` when the tool is here. */
export function skipWithout(command: string, ...words: readonly string[]): string | false {
  const { error, status } = spawnSync(command, words, { stdio: 'ignore' });
  return error === undefined && status === 0
    ? false
    : `${[command, ...words].join(' ')} fails here`;
}

/**
 * The seconds that a drain takes at most: the longest timeout that a stream can have, the time to record the
 * attempt, and the time of requests that do not end.
 */
export const drainSecondsMax =
  (streamTimeoutMsMax() + limits.delivery.leaseGraceMs + limits.http.closingMs) / 1000;

function streamTimeoutMsMax(): number {
  const { maximum } = deliveryOptions.properties.timeout_ms as { readonly maximum?: number };
  assert.ok(maximum !== undefined && maximum > configOf({}).attemptTimeoutMs);
  return maximum;
}

/** Returns the seconds of `60s` or `2m`. */
export function secondsOf(text: string): number {
  const { count, unit } = /^(?<count>[0-9]+)(?<unit>[sm])$/.exec(text)?.groups ?? {};
  assert.ok(count !== undefined, text);
  return Number(count) * (unit === 'm' ? 60 : 1);
}

/** Fails for an image that names a registry: `docker.io/library/node` and the like. */
export function assertWithoutRegistry(image: string): void {
  assert.match(image, /^[a-z0-9-]+(?::[a-z0-9.-]+)?$/);
}
