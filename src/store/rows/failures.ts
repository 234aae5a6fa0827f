import type { ErrorCode } from '../../core/error-code.ts';
import type { Failure } from '../../core/types.ts';

/**
 * Counts the bytes of a failure in a page that is bounded in bytes: the event and the texts of
 * errors.
 */
export function failureBytes({ event, attempts }: Pick<Failure, 'event' | 'attempts'>): number {
  const errors = attempts.map(({ error = '' }) => attemptBytes + Buffer.byteLength(error));
  return errors.reduce((sum, bytes) => sum + bytes, Buffer.byteLength(event.body));
}

/** Bytes of an attempt without the text of its error. */
export const attemptBytes = 150;

/** Returns the code of a row, which is empty where it is not known. */
export function storedCode(code: string): ErrorCode | undefined {
  return code === '' ? undefined : (code as ErrorCode);
}
