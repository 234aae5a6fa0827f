import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { MIB } from '../core/units.ts';
import type { SignatureCheck } from '../core/verify.ts';
import { readJson, writeJson } from './json.ts';
import type { CheckSignature } from './signature-check.ts';

/** A request that a receiver of the command line has read and checked. */
export interface Webhook {
  /** When it was read (RFC 3339). */
  readonly time: string;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** Absent where nothing checks signatures. */
  readonly signature: SignatureCheck | undefined;
  /** Status of the response. */
  readonly status: number;
  readonly body: string;
  /** The parsed body; `undefined` when it is no JSON. */
  readonly event: unknown;
}

export interface WebhookDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly checkSignature: CheckSignature | undefined;
  readonly statusFor: (signature: SignatureCheck | undefined) => number;
}

const bodyBytesMax = MIB;

/**
 * Reads a request and decides how to respond; the caller responds. A text says why there is no webhook:
 * its sender aborted it, or it was too large, and has got a 413.
 */
export async function readWebhook(
  { request, response }: { request: IncomingMessage; response: ServerResponse },
  { clock, checkSignature, statusFor }: WebhookDeps,
): Promise<Webhook | string> {
  const body = await bodyOf(request);
  if (body === 'cut off') return 'The sender aborted a request.';
  if (body === 'too large') {
    response.writeHead(413, { connection: 'close' }).end();
    return 'Rejected a request of more than 1 MiB.';
  }
  const signature = await checkSignature?.(request, body);
  const { method = '', url: path = '', headers } = request;
  return {
    time: formatTime(clock.now()),
    method,
    path,
    headers,
    signature,
    status: statusFor(signature),
    body: body.toString(),
    event: eventOf(body),
  };
}

/** Returns a webhook as one line of JSON. */
export function webhookJson({ body, event, ...webhook }: Webhook): string {
  return writeJson({ ...webhook, event: event ?? body });
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | 'too large' | 'cut off'> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > bodyBytesMax) return 'too large';
      chunks.push(chunk);
    }
  } catch {
    // The only error of an incoming request: its sender disconnected.
    return 'cut off';
  }
  return Buffer.concat(chunks);
}

function eventOf(body: Buffer): unknown {
  try {
    return readJson(body.toString());
  } catch {
    return undefined;
  }
}
