import strict from 'node:assert/strict';

/**
 * `node:assert/strict`, for which a field that is `undefined` and one that is absent are the same: so they are
 * for all who use the store.
 */
export const assert: typeof strict = Object.assign(
  (value: unknown, ...message: [message?: string | Error]) => strict(value, ...message),
  strict,
  {
    deepEqual: (actual: unknown, expected: unknown, ...message: [message?: string | Error]) =>
      strict.deepEqual(present(actual), present(expected), ...message),
  },
) as typeof strict;

function present(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(present);
  if (typeof value !== 'object' || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(fields.map(([name, field]) => [name, present(field)]));
}
