import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { buildBinary } from '../../tools/binary.ts';
import { manifest } from '../../tools/package.ts';
import { createHome, type Home, run } from './fixture.ts';
import { deliversAfter, describeJourney } from './journey.ts';

/** The single executable: built, and used in an empty home where PATH has no Node. */

const root = fileURLToPath(new URL('../../', import.meta.url));

let folder: string;
let home: Home;
let command: string;
let licenses: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leat-dist-'));
  home = await createHome({ PATH: join(folder, 'nothing') });
  ({ file: command, licenses } = await buildBinary(folder));
});
after(async () => {
  await rm(folder, { recursive: true, force: true });
  await home.remove();
});

describe('the single executable', () => {
  test(
    'the executable has the version, and leat config shows its data folder',
    { tags: ['long'] },
    async () => {
      assert.equal((await run(home, command, ['--version'])).stdout, `${manifest.version}\n`);
      const { code, stdout } = await run(home, command, ['config']);
      assert.equal(code, 0);
      assert.ok(stdout.includes(home.data), stdout);
    },
  );

  test('the executable names no path of the machine that built it', { tags: ['long'] }, () => {
    for (const path of [root, `${folder}/`]) assert.ok(!hasText(command, path), path);
  });

  test('the licences of the executable include that of Node', { tags: ['long'] }, () => {
    const text = readFileSync(licenses, 'utf8');
    assert.match(text, /^Node\.js \d+\.\d+\.\d+ \(MIT\)$/m);
    assert.match(text, /^fastify .*\(MIT\)$/m);
  });
});

describeJourney('the executable', () => ({ home, command }));

test(
  'the executable delivers what was published before it was moved',
  { tags: ['long'] },
  async (t) => {
    const own = await createHome({ PATH: join(folder, 'nothing') });
    t.after(own.remove);
    const moved = join(folder, 'leat');
    const shipped = { home: own, command };
    await deliversAfter(shipped, async () => {
      await rename(command, moved);
      command = moved;
      shipped.command = moved;
    });
    assert.ok(!existsSync(join(own.data, 'compiled')), 'no compiled modules are kept');
  },
);

/** Returns whether a large file contains a text. */
function hasText(path: string, text: string): boolean {
  const wanted = Buffer.from(text);
  const piece = Buffer.alloc(16 * 1024 * 1024);
  const file = openSync(path, 'r');
  try {
    const { size } = statSync(path);
    for (let at = 0; at < size; at += piece.length - wanted.length) {
      const length = readSync(file, piece, 0, piece.length, at);
      if (piece.subarray(0, length).includes(wanted)) return true;
    }
    return false;
  } finally {
    closeSync(file);
  }
}
