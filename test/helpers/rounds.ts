/**
 * Rounds of a test that repeats something random. `npm test` plays a few; `npm run test:long` sets
 * `LEAT_TEST_ROUNDS=all` and plays all of them.
 */
export function rounds({ few, all }: { readonly few: number; readonly all: number }): number {
  return process.env['LEAT_TEST_ROUNDS'] === 'all' ? all : few;
}
