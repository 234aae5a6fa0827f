import { registerHooks } from 'node:module';

/**
 * Preload of `tools/test.ts`: imports packages as the files that `LEAT_TEST_PACKAGES` names. Most test
 * files import some part of the API, and with it 700 files of typebox.
 */
const bundled = new Map(
  Object.entries(JSON.parse(process.env['LEAT_TEST_PACKAGES'] ?? '{}') as Record<string, string>),
);

registerHooks({
  resolve: (specifier, context, next) => {
    const url = bundled.get(specifier);
    return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
  },
});
