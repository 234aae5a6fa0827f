import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import type { Dispatcher } from 'undici';
import type { Clock } from '../../core/clock.ts';
import { codeOf } from '../../core/errors.ts';
import { MIB } from '../../core/units.ts';
import { CommandFailed, exitCodes } from '../errors.ts';
import { connectionError } from './connection-error.ts';
import { createConnection } from './connection.ts';

/** Sends requests to one server over one HTTP/1.1 connection; redirects are not followed. */
export interface HttpClient {
  /** Origin, without a slash at its end. */
  readonly url: string;
  /** Sends a request and reads the whole response, whatever its status. */
  send(request: HttpRequest): Promise<HttpResponse>;
  /**
   * Sends a request whose response has no end of its own. Returns a 200 unread, for the caller to
   * read or destroy, and anything else read whole. Reading fails after `silenceMsMax` without data.
   */
  open(
    request: HttpRequest & { readonly silenceMsMax: number },
  ): Promise<HttpResponse | StreamedResponse>;
}

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query, beginning with a slash. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** Names in lower case; of a repeated header the first value. */
export type ResponseHeaders = Readonly<Record<string, string | undefined>>;

/** A response with its body as text. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly text: string;
}

/** A 200 whose body is still being sent; leaving the iteration closes its connection. */
export interface StreamedResponse {
  readonly status: 200;
  readonly headers: ResponseHeaders;
  readonly stream: AsyncIterable<Uint8Array>;
}

/** Dependencies of {@link createHttpClient}. */
export interface HttpClientDeps {
  readonly clock: Clock;
  readonly version: string;
}

/** From the request to the headers, and from there to the end of the body. */
const responseMsMax = 30_000;
/** A page of a hundred failures with events of 256 KiB each is half of it. */
const responseBytesMax = 64 * MIB;

/**
 * Creates a client of the server at `url`. `caFile` holds an authority that is trusted along with
 * those of the system and of NODE_EXTRA_CA_CERTS. A request that fails rejects with a
 * {@link CommandFailed} that says what to do.
 */
export function createHttpClient(
  url: string,
  { clock, version }: HttpClientDeps,
  caFile?: string,
): HttpClient {
  const ca = caFile === undefined ? undefined : trustedAuthorities(caFile);
  let connection: Dispatcher | undefined;
  const request = async (sent: HttpRequest, bodyTimeout = 0): Promise<Dispatcher.ResponseData> => {
    connection ??= await createConnection(url, { ca, timeoutMs: responseMsMax });
    const deadline = new AbortController();
    const timer = clock.after(responseMsMax, () => deadline.abort(timedOut(url)));
    try {
      return await connection.request({
        origin: url,
        method: sent.method,
        path: sent.path,
        headers: {
          'user-agent': `leat-cli/${version}`,
          accept: 'application/json',
          ...sent.headers,
        },
        body: sent.body ?? null,
        signal: AbortSignal.any([deadline.signal, ...(sent.signal ? [sent.signal] : [])]),
        headersTimeout: 0,
        bodyTimeout,
      });
    } catch (error) {
      throw connectionError(url, error);
    } finally {
      timer.cancel();
    }
  };
  const readWhole = async (response: Dispatcher.ResponseData): Promise<HttpResponse> => {
    const { body, statusCode } = response;
    const timer = clock.after(responseMsMax, () => body.destroy(timedOut(url)));
    try {
      const text = await readText(body, url);
      return { status: statusCode, headers: headersOf(response), text };
    } catch (error) {
      throw connectionError(url, error);
    } finally {
      timer.cancel();
    }
  };
  return {
    url,
    send: async (sent) => readWhole(await request(sent)),
    open: async (sent) => {
      const response = await request(sent, sent.silenceMsMax);
      if (response.statusCode !== 200) return readWhole(response);
      const stream = readStream(response.body, url, sent.silenceMsMax);
      return { status: 200, headers: headersOf(response), stream };
    },
  };
}

function headersOf({ headers }: Pick<Dispatcher.ResponseData, 'headers'>): ResponseHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, [value].flat()[0]]),
  );
}

async function* readStream(
  body: AsyncIterable<Uint8Array>,
  url: string,
  silenceMsMax: number,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    if (codeOf(error) !== 'UND_ERR_BODY_TIMEOUT') throw connectionError(url, error);
    const message = `${url} sent nothing for ${silenceMsMax / 1000} seconds.`;
    throw new CommandFailed(exitCodes.unavailable, message, { cause: error });
  }
}

async function readText(body: AsyncIterable<Uint8Array>, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > responseBytesMax) {
      throw new CommandFailed(exitCodes.failed, `${url} answered with more than 64 MiB.`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function timedOut(url: string): CommandFailed {
  const message = `${url} did not answer within ${responseMsMax / 1000} seconds: try again later.`;
  return new CommandFailed(exitCodes.unavailable, message);
}

/** The authorities of the system and of the environment, and the one in the file. */
function trustedAuthorities(caFile: string): string[] {
  try {
    return [...getCACertificates('default'), readFileSync(caFile, 'utf8')];
  } catch (error) {
    const code = codeOf(error) ?? 'unreadable';
    const message = `--ca: ${caFile} cannot be read (${code}): name a PEM file of the authority.`;
    throw new CommandFailed(exitCodes.usage, message, { cause: error });
  }
}
