import { parseFilter } from '../core/filter.ts';

/** Tells whether an event, as the JSON text of its envelope, matches a condition. */
export type Matcher = (json: string) => boolean;

/** Returns the matcher of a condition as JSON text, by the same rules as the server; else what is wrong. */
export function matcherOf(
  text: string,
): { readonly matches: Matcher } | { readonly problem: string } {
  let condition: unknown;
  try {
    condition = JSON.parse(text);
  } catch {
    return { problem: 'The condition on payloads is not JSON.' };
  }
  const parsed = parseFilter(condition);
  if ('violation' in parsed) {
    const { path, reason } = parsed.violation;
    return { problem: path === '' ? reason : `${path}: ${reason}` };
  }
  const { filter } = parsed;
  return {
    matches: (json) => {
      const steps = filter.matches(JSON.parse(json) as never);
      for (;;) {
        const step = steps.next();
        if (step.done === true) return step.value;
      }
    },
  };
}
