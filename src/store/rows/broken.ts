import { isOfSealed, SealBroken } from '../../core/errors.ts';

/**
 * Returns what `open` returns; `undefined` when a sealed value does not open, which is reported as the
 * reason for `consequence`. A node that lacks a key of the store notices at its next heartbeat.
 */
export function unlessBroken<T>(
  consequence: string,
  report: (error: unknown) => void,
  open: () => T,
): T | undefined {
  try {
    return open();
  } catch (error) {
    if (!isOfSealed(error)) throw error;
    report(new SealBroken(`${consequence}: ${error.message}`, { cause: error.cause }));
    return undefined;
  }
}

/** Returns a function that reports equal errors once: a damaged row stays damaged. */
export function reportOnce(report: (error: unknown) => void): (error: unknown) => void {
  const reported = new Set<string>();
  return (error) => {
    const text = String(error);
    if (reported.has(text)) return;
    reported.add(text);
    report(error);
  };
}
