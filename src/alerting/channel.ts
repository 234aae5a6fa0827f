import type { Alert } from './alert.ts';
import type { ChannelName } from '../core/alert-channels.ts';

/** A destination of alerts. */
export interface AlertChannel {
  readonly name: ChannelName;
  /**
   * Resolves when the other side has accepted the alert, else rejects with {@link AlertNotSent}. Ends
   * when aborted, even if the other side does not respond.
   */
  send(message: AlertMessage, signal: AbortSignal): Promise<void>;
}

export interface AlertMessage {
  readonly alert: Alert;
  /** Domain of the tenant, `host[:port]`. */
  readonly domain: string;
  /** Public URL of the tenant, with its slash. */
  readonly url: string;
}

/** `message` is the reason in a few words, without addresses and text of the other side. */
export class AlertNotSent extends Error {
  readonly code = 'alert_not_sent';
  override readonly name = 'AlertNotSent';
}

/** Returns the code of a socket error: its message may quote the secret address. */
export function labelOf(error: unknown): string {
  const { code, cause } = Object(error) as { readonly code?: unknown; readonly cause?: unknown };
  if (typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code;
  if (error instanceof AggregateError && error.errors.length > 0) return labelOf(error.errors[0]);
  return cause === undefined ? 'it failed' : labelOf(cause);
}
