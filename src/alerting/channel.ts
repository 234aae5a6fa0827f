import type { Alert } from './alert.ts';
import type { ChannelName } from './outbox.ts';

/** A place that alerts can be sent to. */
export interface AlertChannel {
  readonly name: ChannelName;
  /**
   * Resolves when the place has taken the alert; else rejects with {@link AlertNotSent}. Ends when
   * aborted, whatever the other side does.
   */
  send(letter: AlertMessage, signal: AbortSignal): Promise<void>;
}

export interface AlertMessage {
  readonly alert: Alert;
  /** Domain of the tenant, `host[:port]`. */
  readonly domain: string;
}

/** `message` says why in a few words of ours: neither addresses nor what the other side wrote. */
export class AlertNotSent extends Error {
  readonly code = 'alert_not_sent';
  override readonly name = 'AlertNotSent';
}

/** The word for an error of a socket: messages of errors may quote the secret address. */
export function labelOf(error: unknown): string {
  const { code, cause } = Object(error) as { readonly code?: unknown; readonly cause?: unknown };
  if (typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code;
  if (error instanceof AggregateError && error.errors.length > 0) return labelOf(error.errors[0]);
  return cause === undefined ? 'it failed' : labelOf(cause);
}
