import type { ErrorCode } from '../core/error-code.ts';

/** Failures of a stream by error code, the most frequent first. A stored format, as JSON. */
export interface Causes {
  readonly codes: readonly CodeCount[];
  /** Failures with a code that is not listed. */
  readonly others: number;
}

export interface CodeCount {
  readonly code: ErrorCode;
  readonly count: number;
  /** The error of one of them, as `causeOf` returns it. */
  readonly sample?: string | undefined;
}

/** Codes that an alert lists. */
export const codesMax = 5;

export const noCauses: Causes = { codes: [], others: 0 };

/** Sums up failures by code; the sample of a code is its first one. */
export interface CauseCounter {
  /** Adds failures with a code; `undefined` when it is not known. */
  add(code: ErrorCode | undefined, count: number, sample: string | undefined): void;
  causes(): Causes;
}

export function createCauseCounter(): CauseCounter {
  const byCode = new Map<ErrorCode, CodeCount>();
  let unknown = 0;
  return {
    add: (code, count, sample) => {
      if (code === undefined) {
        unknown += count;
        return;
      }
      const known = byCode.get(code);
      const sum = count + (known?.count ?? 0);
      const shown = known?.sample ?? sample;
      byCode.set(code, { code, count: sum, ...(shown === undefined ? {} : { sample: shown }) });
    },
    causes: () => {
      const sorted = [...byCode.values()].toSorted((one, other) => other.count - one.count);
      const cut = sorted.slice(codesMax).reduce((sum, { count }) => sum + count, 0);
      return { codes: sorted.slice(0, codesMax), others: unknown + cut };
    },
  };
}

/** Sums up the causes of two alerts about different failures of a stream. */
export function joinCauses(newer: Causes, older: Causes): Causes {
  const counter = createCauseCounter();
  for (const { code, count, sample } of [...newer.codes, ...older.codes]) {
    counter.add(code, count, sample);
  }
  counter.add(undefined, newer.others + older.others, undefined);
  return counter.causes();
}

/** Returns one sentence about what failures with this code mean. */
export function meaningOf(code: ErrorCode): string {
  const status = /^http_(?<status>[0-9]{3})$/.exec(code)?.groups?.['status'];
  if (status !== undefined) return statusMeaning(Number(status));
  return meanings[code as keyof typeof meanings];
}

const meanings: Readonly<Record<Exclude<ErrorCode, `http_${number}`>, string>> = {
  timeout: 'The receiver sent no complete response in time.',
  dns: 'The host name of the endpoint could not be resolved.',
  refused: 'Nothing accepts connections at the address of the endpoint.',
  reset: 'The connection closed before the response was complete.',
  tls: 'No TLS connection: the certificate or the protocol version of one side is rejected.',
  protocol: 'The response was not valid HTTP.',
  blocked_address: 'The endpoint has an address that Leat does not send to, see LEAT_EGRESS_ALLOW.',
  authorization: 'The authorization server issued no access token for the endpoint.',
  stream_disabled: 'The event stream was disabled, and events failed without an attempt.',
};

function statusMeaning(status: number): string {
  const exact = statusMeanings[status];
  if (exact !== undefined) return exact;
  if (status < 400)
    return 'The endpoint does not accept the event, and redirects are not followed.';
  if (status < 500) return 'The receiver rejects the request.';
  return 'The receiver failed while it processed the event.';
}

const statusMeanings: Readonly<Record<number, string>> = {
  401: 'The receiver rejects the authorization of the stream.',
  403: 'The receiver rejects the authorization of the stream.',
  404: 'The receiver knows no such endpoint.',
  410: 'The receiver has removed the endpoint.',
  413: 'The event is too large for the receiver.',
  429: 'The receiver limits the rate of requests.',
  502: 'A proxy in front of the receiver got no valid response from it.',
  503: 'The receiver is overloaded or unavailable.',
  504: 'A proxy in front of the receiver got no response from it in time.',
};
