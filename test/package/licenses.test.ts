import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readPart } from '../../tools/licenses.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

test('the licence of a package comes with those of the work of others that it contains', () => {
  const holders: [name: string, holder: RegExp][] = [
    // Its parser is compiled code.
    ['undici', /Fedor Indutny/],
    ['undici', /Einar Otto Stangvik/],
    ['undici', /Jimmy Wärting/],
    ['nodemailer', /Mathias Bynens/],
  ];
  for (const [name, holder] of holders) {
    const texts = readPart(join(root, 'node_modules', name)).texts.join('\n');
    assert.match(texts, holder);
    assert.match(texts, /Permission is hereby granted/);
  }
});
