import { readFileSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { getCACertificates } from 'node:tls';
import type { Clock } from '../../core/clock.ts';
import { codeOf } from '../../core/errors.ts';
import { CommandFailed, exitCodes } from './errors.ts';

/** Requests to one server, over plain HTTP or HTTPS. */
export interface Http {
  /** Origin, without a slash at its end. */
  readonly url: string;
  /** Sends a request and reads its whole answer, whatever the status. */
  send(request: HttpRequest): Promise<HttpResponse>;
  /** Sends a request; the caller reads the body of a 200, or destroys it; else it is read whole. */
  open(request: HttpRequest): Promise<HttpResponse | OpenResponse>;
}

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Path and query, beginning with a slash. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** An answer with its body as text. */
export interface HttpResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** An answer whose body goes on. */
export interface OpenResponse {
  readonly status: 200;
  readonly stream: IncomingMessage;
}

/** What a connection needs. */
export interface HttpDeps {
  readonly clock: Clock;
  readonly version: string;
}

const answerMs = 30_000;
/** A page of a hundred failures with events of 256 KiB each is half of it. */
const answerBytesMax = 64 * 1024 * 1024;

/**
 * A client of the server at `url`. `caFile` holds an authority that is trusted besides those of the
 * system and of NODE_EXTRA_CA_CERTS. Everything that goes wrong on the way is a
 * {@link CommandFailed} that says what to do.
 */
export function createHttp(url: string, { clock, version }: HttpDeps, caFile?: string): Http {
  const authorities = caFile === undefined ? undefined : trusted(caFile);
  const start = url.startsWith('https:') ? requestHttps : requestHttp;
  const open = (sent: HttpRequest): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const options = {
        method: sent.method,
        headers: {
          'user-agent': `leat-cli/${version}`,
          accept: 'application/json',
          ...(sent.body === undefined ? {} : { 'content-length': Buffer.byteLength(sent.body) }),
          ...sent.headers,
        },
        ...(authorities === undefined ? {} : { ca: authorities }),
        ...(sent.signal === undefined ? {} : { signal: sent.signal }),
      };
      const request: ClientRequest = start(url + sent.path, options);
      const patience = clock.after(answerMs, () => request.destroy(tooSlow(url)));
      request.on('error', (error) => {
        patience.cancel();
        reject(connectionFailure(url, error));
      });
      request.on('response', (answer) => {
        patience.cancel();
        resolve(answer);
      });
      request.end(sent.body);
    });
  const read = async (answer: IncomingMessage): Promise<HttpResponse> => {
    const patience = clock.after(answerMs, () => answer.destroy(tooSlow(url)));
    try {
      const text = await readAll(answer, url);
      return { status: answer.statusCode ?? 0, headers: answer.headers, text };
    } catch (error) {
      throw connectionFailure(url, error);
    } finally {
      patience.cancel();
    }
  };
  return {
    url,
    send: async (sent) => read(await open(sent)),
    open: async (sent) => {
      const stream = await open(sent);
      return stream.statusCode === 200 ? { status: 200, stream } : read(stream);
    },
  };
}

/** The failure that an error of a connection means. */
export function connectionFailure(url: string, error: unknown): unknown {
  if (error instanceof CommandFailed || !(error instanceof Error)) return error;
  const code = codeOf(error) ?? '';
  if (code === '' || error.name === 'AbortError') return error;
  const cause = { cause: error };
  if (isCertificateError(code)) {
    const way =
      'trust its authority with --ca <file> or NODE_EXTRA_CA_CERTS (the server prints it)';
    return new CommandFailed(
      exitCodes.failed,
      `The certificate of ${url} is not trusted (${code}): ${way}.`,
      cause,
    );
  }
  if (code === 'EPROTO' || code === 'HPE_INVALID_CONSTANT') {
    const message = `${url} does not speak ${url.startsWith('https:') ? 'HTTPS' : 'HTTP'}: check the scheme and the port.`;
    return new CommandFailed(exitCodes.failed, message, cause);
  }
  const why = reasons[code] ?? `the connection failed (${code}): is it running?`;
  return new CommandFailed(exitCodes.unavailable, `${url} cannot be reached: ${why}`, cause);
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (connection refused). Is the server running?',
  ENOTFOUND: 'there is no host of that name. Is the address right?',
  EAI_AGAIN: 'its name cannot be looked up now. Is there a network?',
  ECONNRESET: 'the connection was cut. Is the server running, and the scheme right?',
};

function isCertificateError(code: string): boolean {
  return /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ISSUER|ALTNAME/.test(code);
}

function tooSlow(url: string): CommandFailed {
  const message = `${url} did not answer within ${answerMs / 1000} seconds: try again later.`;
  return new CommandFailed(exitCodes.unavailable, message);
}

async function readAll(answer: IncomingMessage, url: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > answerBytesMax) {
      throw new CommandFailed(exitCodes.failed, `${url} answered with more than 64 MiB.`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The authorities that are trusted anyway, and those of the file. */
function trusted(caFile: string): string[] {
  try {
    return [...getCACertificates('default'), readFileSync(caFile, 'utf8')];
  } catch (error) {
    const code = codeOf(error) ?? 'unreadable';
    const message = `--ca: ${caFile} cannot be read (${code}): name a PEM file of the authority.`;
    throw new CommandFailed(exitCodes.usage, message, { cause: error });
  }
}
