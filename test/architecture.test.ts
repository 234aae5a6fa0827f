import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, test } from 'node:test';
import { importsOf, violationsOf } from './helpers/imports.ts';

const src = new URL('../src/', import.meta.url);
const files = globSync('**/*', { cwd: src, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => `${entry.parentPath}/${entry.name}`.slice(src.pathname.length))
  .toSorted();

describe('src', () => {
  test('the test finds the files of src', () => {
    assert.ok(files.includes('core/clock.ts'), `found ${files.length} files in ${src.pathname}`);
  });

  for (const file of files) {
    test(`${file} keeps the dependency rule`, () => {
      const source = /\.tsx?$/.test(file) ? readFileSync(new URL(file, src), 'utf8') : '';
      assert.deepEqual(violationsOf(file, source), []);
    });
  }
});

/**
 * Small files that one neighbour alone imports, and that stay: those whose noun has a file in other folders
 * too, and one that has an import rule of its own.
 */
const smallFiles: ReadonlySet<string> = new Set([
  'api/actions.ts',
  'api/alert-test.ts',
  'cli/event-types.ts',
  'cli/http/connection.ts',
  'console/event-types.ts',
  'program/inspector.ts',
  'program/node-facts.ts',
  'program/stats.ts',
  'program/upkeep.ts',
  'stats/settings.ts',
  'store/commands/certificates.ts',
  'store/engine/postgres/time.ts',
  'store/engine/sqlite/deliveries.ts',
  'store/engine/sqlite/overview.ts',
  'store/engine/sqlite/tenant-removal.ts',
]);

describe('small files', () => {
  const small = 50;
  const large = 400;
  const linesOf = (file: string): number =>
    readFileSync(new URL(file, src), 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '').length;
  const sources = files.filter((file) => /\.tsx?$/.test(file));
  const importers = new Map<string, { file: string; isRead: boolean }[]>();
  for (const file of sources) {
    for (const found of importsOf(readFileSync(new URL(file, src), 'utf8'))) {
      const imported = posix.join(posix.dirname(file), found.specifier);
      // Without a name it acts when it is read, or is read later.
      const isRead = found.typeOnly || found.names.length > 0;
      importers.set(imported, [...(importers.get(imported) ?? []), { file, isRead }]);
    }
  }
  const testImports = new Set(
    globSync('**/*.ts', { cwd: import.meta.dirname }).flatMap((file) =>
      importsOf(readFileSync(new URL(file, import.meta.url), 'utf8')).map(({ specifier }) =>
        posix.join('test', posix.dirname(file), specifier),
      ),
    ),
  );

  /** Returns whether a file belongs into the one file that imports it. */
  const belongsToImporter = (file: string): boolean => {
    const [only, ...more] = importers.get(file) ?? [];
    if (only === undefined || more.length > 0 || !only.isRead) return false;
    if (posix.dirname(only.file) !== posix.dirname(file)) return false;
    // Node runs the tests, and reads no JSX.
    const isTested = testImports.has(`src/${file}`);
    if (isTested && !file.endsWith('.tsx') && only.file.endsWith('.tsx')) return false;
    return linesOf(file) < small && linesOf(file) + linesOf(only.file) <= large;
  };

  test('small files: each that one neighbour alone imports is part of it', () => {
    const apart = sources.filter(belongsToImporter);
    assert.deepEqual(apart, [...smallFiles]);
  });
});

test('migrations: those after the baselines are numbered without a gap over both engines', () => {
  const paths = globSync('store/{,engine/*/}migrations/*.sql', { cwd: src });
  const numbers = new Set(paths.map((path) => Number(posix.basename(path).slice(0, 4))));
  const after = [...numbers].filter((number) => number > 49).toSorted((a, b) => a - b);
  assert.deepEqual(
    after,
    after.map((_, index) => 50 + index),
  );
  assert.ok(numbers.has(47) && numbers.has(49), 'the baselines');
});

describe('the dependency rule', () => {
  const forbidden: [path: string, source: string][] = [
    ['core/retry.ts', "import { readFile } from 'node:fs/promises';"],
    ['core/retry.ts', "import { createHmac } from 'node:crypto';"],
    ['core/retry.ts', "import { Type } from 'typebox';"],
    ['core/retry.ts', "import type { Store } from '../store/port/store.ts';"],
    ['core/retry.ts', "import { systemClock } from '../clock.ts';"],
    ['core/sign.ts', "import { randomBytes } from 'node:crypto';"],
    ['core/sign.ts', "import * as crypto from 'node:crypto';"],
    ['core/sign.ts', "import crypto from 'node:crypto';"],
    ['core/health.ts', "import { readConfig } from '../config.ts';"],
    ['schemas/streams.ts', "import { cursorOf } from '../core/page.ts';"],
    ['schemas/streams.ts', "import type { Store } from '../store/port/store.ts';"],
    ['schemas/streams.ts', "import { readFileSync } from 'node:fs';"],
    ['store/port/store.ts', "import { openSqlite } from '../engine/sqlite/open.ts';"],
    ['store/migrate.ts', "import { DatabaseSync } from 'node:sqlite';"],
    ['store/engine/sqlite/log.ts', "import { where } from '../postgres/where.ts';"],
    ['store/engine/postgres/log.ts', "import { where } from '../sqlite/where.ts';"],
    ['store/engine/postgres/log.ts', "import { DatabaseSync } from 'node:sqlite';"],
    ['store/engine/sqlite/log.ts', "import { Pool } from 'pg';"],
    ['store/engine/sqlite/log.ts', "import { createRunner } from '../../../delivery/runner.ts';"],
    ['delivery/runner.ts', "import { Pool } from 'undici';"],
    ['delivery/runner.ts', "import { openStore } from '../store/open.ts';"],
    ['delivery/runner.ts', "import { createServer } from 'node:http';"],
    ['delivery/http/transport.ts', "import fastify from 'fastify';"],
    ['delivery/request.ts', "import * as timers from 'node:timers/promises';"],
    ['auth/verify.ts', "import fastify from 'fastify';"],
    ['auth/verify.ts', "import { app } from '../api/app.ts';"],
    ['api/streams.ts', "import { createDispatcher } from '../delivery/dispatcher.ts';"],
    ['api/streams.ts', "import { openStore } from '../store/open.ts';"],
    ['api/streams.ts', "import { jwtVerify } from 'jose';"],
    ['api/streams.ts', "import { env } from 'node:process';"],
    ['messages/app.ts', "import { problem } from '../api/http/problem.ts';"],
    ['alerting/monitor.ts', "import { Runner } from '../delivery/runner.ts';"],
    ['cli/streams.ts', "import type { Store } from '../store/port/store.ts';"],
    ['config.ts', "import type { Store } from './store/port/store.ts';"],
    ['config.ts', "import commander from 'commander';"],
    ['api/app.ts', "import { systemClock } from '../clock.ts';"],
    ['api/app.ts', "export * from '../delivery/runner.ts';"],
    ['api/app.ts', "import '../delivery/runner.ts';"],
    ['api/app.ts', "import {\n  a,\n  type B,\n} from '../delivery/runner.ts';"],
    ['api/app.ts', "const late = await import('../delivery/runner.ts');"],
    ['api/app.ts', 'const late = await import(name);'],
    ['api/app.ts', "const old = require('undici');"],
    ['api/app.ts', "import fs from 'fs';"],
    ['api/app.ts', "import pkg from '../../package.json' with { type: 'json' };"],
    ['api/app.ts', "import { helper } from '../../test/helpers/imports.ts';"],
  ];
  for (const [path, source] of forbidden) {
    test(`forbids in ${path}: ${JSON.stringify(source)}`, () => {
      const violations = violationsOf(path, `/** A comment. */\n${source}\nexport const a = 1;\n`);
      assert.equal(violations.length, 1, violations.join('\n'));
      assert.match(violations[0] ?? '', new RegExp(`^${path} may not import `));
    });
  }

  const allowed: [path: string, source: string][] = [
    ['core/retry.ts', "import type { Millis } from './clock.ts';"],
    ['core/sign.ts', "import { createHmac, type KeyObject } from 'node:crypto';"],
    ['core/window.ts', "import assert from 'node:assert/strict';"],
    ['schemas/streams.ts', "import { Type } from 'typebox';"],
    ['schemas/streams.ts', "import { Compile } from 'typebox/compile';"],
    ['schemas/streams.ts', "import type { EventStream } from '../core/types.ts';"],
    ['store/open.ts', "import { openSqlite } from './sqlite/open.ts';"],
    ['store/engine/sqlite/log.ts', "import { DatabaseSync } from 'node:sqlite';"],
    ['store/engine/sqlite/log.ts', "import type { Log } from '../../port/log.ts';"],
    ['delivery/runner.ts', "import type { Store } from '../store/port/store.ts';"],
    ['delivery/http/http-connection.ts', "import { Agent } from 'undici';"],
    ['auth/keys.ts', "import { SignJWT } from 'jose';"],
    ['api/app.ts', "import swagger from '@fastify/swagger';"],
    ['api/app.ts', "import { createVerifier } from '../auth/verify.ts';"],
    ['cli/streams.ts', "import { Command } from 'commander';"],
    ['main.ts', "import { createDispatcher } from './delivery/dispatcher.ts';"],
    ['main.ts', "import pkg from '../package.json' with { type: 'json' };"],
    ['clock.ts', "import { randomBytes } from 'node:crypto';"],
    ['api/app.ts', "// import { systemClock } from '../clock.ts';"],
  ];
  for (const [path, source] of allowed) {
    test(`the dependency rule allows in ${path}: ${source}`, () => {
      assert.deepEqual(violationsOf(path, source), []);
    });
  }

  const forbiddenNames: [path: string, source: string][] = [
    ['api/app.ts', 'const now = Date.now();'],
    ['api/app.ts', 'const clock = Date.now;'],
    ['api/app.ts', 'const now = new Date();'],
    ['api/app.ts', 'const now = new Date;'],
    ['api/app.ts', 'const now = Date();'],
    ['api/app.ts', 'const now = performance.now();'],
    ['core/ids.ts', 'const number = Math.random();'],
    ['core/ids.ts', 'const id = crypto.randomUUID();'],
    ['delivery/runner.ts', 'setTimeout(retry, 1000);'],
    ['delivery/runner.ts', 'globalThis.setTimeout(retry, 1000);'],
    ['delivery/runner.ts', 'const timer = setInterval(poll, 5000);'],
    ['main.ts', 'const port = process.env.PORT;'],
    ['main.ts', "const port = process['env'].PORT;"],
    ['main.ts', 'const port = process?.env.PORT;'],
  ];
  for (const [path, source] of forbiddenNames) {
    test(`forbids in ${path}: ${source}`, () => {
      const violations = violationsOf(path, source);
      assert.equal(violations.length, 1, violations.join('\n'));
      assert.match(violations[0] ?? '', /may not use/);
    });
  }

  const allowedNames: [path: string, source: string][] = [
    ['clock.ts', 'setTimeout(action, delayMs); Date.now(); new Date();'],
    ['api/app.ts', 'const time = new Date(clock.now()).toISOString();'],
    ['api/app.ts', 'socket.setTimeout(timeoutMs);'],
    ['config.ts', 'const env = process.env;'],
    ['core/clock.ts', '/** Like Date.now(), as an argument. */'],
  ];
  for (const [path, source] of allowedNames) {
    test(`the dependency rule allows in ${path}: ${source}`, () => {
      assert.deepEqual(violationsOf(path, source), []);
    });
  }

  test('every file needs an import rule and a specific name', () => {
    assert.deepEqual(violationsOf('server.ts', ''), ['server.ts has no import rule']);
    assert.deepEqual(violationsOf('lib/a.ts', ''), ['lib/a.ts has no import rule']);
    for (const name of ['utils.ts', 'common.ts', 'helpers.ts', 'index.ts', 'helpers/a.ts']) {
      assert.equal(violationsOf(`api/${name}`, '').length, 1, name);
    }
  });

  test('importsOf: reads every form of import', () => {
    const source = [
      "import a, { b as c, type D } from 'one';",
      "import type { E } from 'two';",
      "export { f } from 'three';",
      "import 'four';",
      "const g = await import('five');",
      "const text = 'not from here';",
      'export const from = 1;',
    ].join('\n');
    assert.deepEqual(importsOf(source), [
      { specifier: 'one', typeOnly: false, names: ['b', 'default'] },
      { specifier: 'two', typeOnly: true, names: [] },
      { specifier: 'three', typeOnly: false, names: ['f'] },
      { specifier: 'four', typeOnly: false, names: [] },
      { specifier: 'five', typeOnly: false, names: [] },
    ]);
  });
});
