/**
 * What a test that repeats something random does in each tier: `npm test` plays a few rounds,
 * `npm run test:all` sets `LEAT_TEST_ROUNDS=all` and plays all of them. A test that is in both has
 * `tags: rounds({ few: [], all: ['long'] })`.
 */
export function rounds<Value>({ few, all }: { readonly few: Value; readonly all: Value }): Value {
  return process.env['LEAT_TEST_ROUNDS'] === 'all' ? all : few;
}
