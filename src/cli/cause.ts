import { InvalidArgumentError } from 'commander';
import { listOption } from './option.ts';

/**
 * Parses causes of failures, separated by commas: error codes (docs/http-api.md#error-codes), HTTP
 * statuses, and the classes `4xx` and `5xx`. Throws a usage error.
 */
export function causeOption(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...listOption(text).map(codeOf)];
}

function codeOf(cause: string): string {
  if (/^([1-9][0-9]{2}|[45]xx)$/.test(cause)) return `http_${cause}`;
  if (/^(http_([1-9][0-9]{2}|[45]xx)|[a-z_]+)$/.test(cause)) return cause;
  throw new InvalidArgumentError('Statuses or codes, for example 503,5xx,timeout.');
}
