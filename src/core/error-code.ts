/** Why an attempt failed: a closed list (docs/http-api.md#error-codes). */
export type ErrorCode = `http_${number}` | CauseCode | 'stream_disabled';

type CauseCode =
  | 'timeout'
  | 'dns'
  | 'refused'
  | 'reset'
  | 'tls'
  | 'protocol'
  | 'blocked_address'
  | 'authorization';

/** Returns whether a code is one of these, of which `http_4xx` and `http_5xx` are classes. */
export function isOfCodes(code: ErrorCode, among: readonly string[]): boolean {
  return among.includes(code) || among.includes(code.replace(/^(http_[45])[0-9]{2}$/, '$1xx'));
}
