import { type IncomingMessage, createServer, type Server, type ServerResponse } from 'node:http';
import type { Command } from 'commander';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';
import { isSecret, type SignatureCheck, verify } from '../core/sign.ts';
import { sleep } from '../core/sleep.ts';
import { pathOf } from './http/api-client.ts';
import {
  type CliDeps,
  type CommonOptions,
  examples,
  run,
  type Run,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { indented, readJson, writeJson } from './json.ts';
import { secretOption, wholeNumberOption } from './option.ts';
import { streamIdOf } from './stream.ts';
import type { Paint } from './terminal/terminal.ts';

interface ListenOptions extends CommonOptions {
  readonly host: string;
  readonly port: number;
  readonly stream?: string;
  readonly secret?: string;
  readonly secretFile?: string;
  readonly status?: number;
  readonly fail?: number;
  readonly delay: number;
  readonly count?: number;
  readonly body?: boolean;
}

/** `leat listen` */
export function addListenCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('listen'))
    .description(
      'receive webhooks on this machine and show what arrives; what is not signed as it should be ' +
        'is answered with 401',
    )
    .option(
      '--port <port>',
      'where to listen; 0 for a free one',
      wholeNumberOption(0, 65_535),
      8090,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--stream <stream>', 'check signatures with the secret of this stream')
    .option('--secret <whsec>', 'check signatures with this secret; others can see arguments')
    .option('--secret-file <file>', 'check signatures with the secret in a file (- for stdin)')
    .option(
      '--status <code>',
      'answer with this status instead of 204',
      wholeNumberOption(200, 599),
    )
    .option(
      '--fail <count>',
      'answer 503 (or --status) to the first so many requests in all, then 204',
      wholeNumberOption(1, 1_000_000),
    )
    .option('--delay <ms>', 'wait before the answer', wholeNumberOption(0, 600_000), 0)
    .option('--count <count>', 'end after so many', wholeNumberOption(1, 1_000_000_000))
    .option('--body', 'show the whole event')
    .addHelpText(
      'after',
      examples(
        'leat listen --stream crm',
        'leat listen --secret-file secret.txt --fail 3',
        'leat listen --port 9000 --delay 2000 --json',
      ),
    )
    .action((options: ListenOptions) =>
      options.stream === undefined
        ? run(deps, options, async (local) =>
            listen(local, options, await ownSecret(local, options)),
          )
        : runWithApi(deps, options, async (online) => {
            const id = await streamIdOf(online.api, options.stream ?? '');
            const path = pathOf`/event-streams/${id}/signing-secret`;
            const { body } = await online.api.send({ method: 'GET', path });
            const { secret } = Object(body) as { readonly secret?: unknown };
            // Without it everything would pass for genuine.
            if (typeof secret === 'string' && isSecret(secret))
              return listen(online, options, secret);
            const why = `${online.api.url} does not tell the secret of the stream`;
            throw new CommandFailed(exitCodes.failed, `${why}: name it with --secret-file <file>.`);
          }),
    );
}

async function ownSecret({ terminal }: Run, options: ListenOptions): Promise<string | undefined> {
  const { secret, secretFile } = options;
  const given =
    secretFile === undefined ? secret : await secretOption('--secret-file', secretFile, terminal);
  if (given === undefined || isSecret(given)) return given;
  throw usageError(
    'The secret is not whsec_ and the base64 of 32 bytes: leat streams secret <stream>',
  );
}

async function listen(local: Run, options: ListenOptions, secret?: string): Promise<void> {
  const { terminal, signal } = local;
  let arrived = 0;
  await new Promise<void>((resolve, reject) => {
    const server = createServer((request, response) => {
      const number = ++arrived;
      const ended = receive(local, { request, response }, { options, secret, number });
      void ended.then(() => number === options.count && resolve(close(server)), reject);
    });
    server.on('error', (error) => reject(cannotListen(options, error)));
    server.listen(options.port, options.host, () => {
      terminal.note(hints(server, secret).join('\n'));
    });
    signal.addEventListener('abort', () => close(server));
  });
}

function close(server: Server): void {
  server.close();
  server.closeIdleConnections();
}

function cannotListen({ host, port }: ListenOptions, error: Error): unknown {
  if (!('code' in error)) return error;
  const why = error.code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${String(error.code)})`;
  const message = `${printable(host)}:${port} ${why}: choose another with --port, or --port 0.`;
  return new CommandFailed(exitCodes.failed, message, { cause: error });
}

function hints(server: Server, secret: string | undefined): string[] {
  const at = server.address();
  if (typeof at !== 'object' || at === null) return [];
  const address = at.family === 'IPv6' ? `[${at.address}]` : at.address;
  const check = secret === undefined ? [] : ['Signatures are checked.'];
  return [
    `Listening on http://${address}:${at.port}/; Ctrl-C ends it.`,
    ...check,
    `A server sends here only with LEAT_EGRESS_ALLOW=${at.address} and LEAT_ALLOW_HTTP_ENDPOINTS=true.`,
  ];
}

interface Arrival {
  readonly options: ListenOptions;
  readonly secret: string | undefined;
  /** 1-indexed. */
  readonly number: number;
}

async function receive(
  { terminal, clock, json, signal }: Run,
  { request, response }: { request: IncomingMessage; response: ServerResponse },
  { options, secret, number }: Arrival,
): Promise<void> {
  const body = await bodyOf(request);
  if (body === 'cut off') return terminal.note('A request was cut off by its sender.');
  if (body === 'too large') {
    response.writeHead(413, { connection: 'close' }).end();
    return terminal.note('A request of more than 1 MiB was refused.');
  }
  const verdict = secret === undefined ? undefined : verdictOf(secret, request, body, clock.now());
  const status = statusOf(options, number, verdict);
  const time = formatTime(clock.now());
  const event = eventOf(body);
  if (json) {
    const { method, url: path, headers } = request;
    terminal.print(
      writeJson({
        time,
        method,
        path,
        headers,
        signature: verdict,
        status,
        event: event ?? body.toString(),
      }),
    );
  } else {
    terminal.print(
      arrivalLine({ time, event, verdict, status, path: request.url ?? '' }, terminal.paint),
    );
    if (options.body === true)
      terminal.print(event === undefined ? printable(body.toString()) : indented(event));
  }
  if (options.delay > 0) await sleep(clock, options.delay, signal);
  response.writeHead(status).end();
}

const bodyBytesMax = 1024 * 1024;

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
    // The only error of a request that arrives: whoever sends it went away.
    return 'cut off';
  }
  return Buffer.concat(chunks);
}

function verdictOf(
  secret: string,
  request: IncomingMessage,
  body: Buffer,
  now: number,
): SignatureCheck {
  const header = (name: string): string | undefined => {
    const value = request.headers[name];
    return typeof value === 'string' ? value : undefined;
  };
  const headers = {
    id: header('webhook-id'),
    timestamp: header('webhook-timestamp'),
    signature: header('webhook-signature'),
  };
  return verify(secret, headers, body, Math.floor(now / 1000));
}

/**
 * The status of the answer: what is not signed as it should be is refused as a careful receiver
 * does; the rest as the options say. `number` is 1-indexed.
 */
export function statusOf(
  { status, fail }: { readonly status?: number; readonly fail?: number },
  number: number,
  verdict: SignatureCheck | undefined,
): number {
  if (verdict !== undefined && verdict !== 'valid') return 401;
  if (fail === undefined) return status ?? 204;
  return number <= fail ? (status ?? 503) : 204;
}

function eventOf(body: Buffer): unknown {
  try {
    return readJson(body.toString());
  } catch {
    return undefined;
  }
}

/** One line for one request: when, what, whether it is genuine, and what was answered. */
export function arrivalLine(
  arrival: {
    readonly time: string;
    readonly event: unknown;
    readonly verdict: SignatureCheck | undefined;
    readonly status: number;
    readonly path: string;
  },
  paint: Paint,
): string {
  const { time, event, verdict, status, path } = arrival;
  const { type, id } = Object(event) as { readonly type?: unknown; readonly id?: unknown };
  const what = typeof type === 'string' ? printable(type) : 'no event';
  const which = typeof id === 'string' ? printable(id) : printable(path);
  const signature =
    verdict === undefined
      ? []
      : [paint(verdict === 'valid' ? 'green' : 'red', `signature ${verdict}`)];
  const answer = paint(status < 300 ? 'green' : 'red', `→ ${status}`);
  const parts = [paint('dim', time.slice(11, 19)), what.padEnd(22), which, ...signature, answer];
  return parts.join('  ');
}
