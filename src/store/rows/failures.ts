import type { ErrorCode } from '../../core/error-code.ts';
import type { Attempt, Failure } from '../../core/types.ts';

/**
 * Counts the bytes of a failure in a page that is bounded in bytes: the event and the texts of
 * errors.
 */
export function failureBytes({ event, attempts }: Pick<Failure, 'event' | 'attempts'>): number {
  return Buffer.byteLength(event.body) + historyBytes(attempts);
}

/** Counts the bytes of attempts. */
export function historyBytes(attempts: readonly Attempt[]): number {
  const errors = attempts.map(({ error = '' }) => attemptBytes + Buffer.byteLength(error));
  return errors.reduce((sum, bytes) => sum + bytes, 0);
}

/** Bytes of an attempt without the text of its error. */
export const attemptBytes = 150;

/** Returns the code of a row, which is empty where it is not known. */
export function storedCode(code: string): ErrorCode | undefined {
  return code === '' ? undefined : (code as ErrorCode);
}
