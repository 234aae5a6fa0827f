import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTempStore, startLeat } from '../helpers/leat.ts';

describe('a public URL for an existing first tenant', () => {
  test('one warning names the old and the new issuer', { tags: ['long'] }, async (t) => {
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    const first = await startLeat(tempStore);
    t.after(() => first.kill());
    await first.stop();

    const LEAT_PUBLIC_URL = 'https://leat.example.com';
    const moved = await startLeat(tempStore, { LEAT_PORT: String(first.port), LEAT_PUBLIC_URL });
    t.after(() => moved.kill());
    const warning = moved
      .output()
      .split('\n')
      .find((line) => line.includes('issuer'));
    const { from, to } = JSON.parse(warning ?? '{}') as Record<string, unknown>;
    assert.deepEqual([from, to], [`http://localhost:${first.port}/`, `${LEAT_PUBLIC_URL}/`]);
  });
});
