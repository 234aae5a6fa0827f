import { type IncomingMessage, createServer, type Server, type ServerResponse } from 'node:http';
import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import { isSecret } from '../core/sign.ts';
import { sleep } from '../core/sleep.ts';
import type { SignatureCheck } from '../core/verify.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  run,
  type Run,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { pathOf } from './http/api-client.ts';
import { indented } from './json.ts';
import { secretOption, wholeNumberOption } from './option.ts';
import { type CheckSignature, createSignatureCheck } from './signature-check.ts';
import { streamIdOf } from './stream.ts';
import type { Paint } from './terminal/terminal.ts';
import { readWebhook, type Webhook, webhookJson } from './webhook.ts';

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
      'receive webhooks on this machine and print them; rejects a wrong signature with 401',
    )
    .option(
      '--port <port>',
      'port to listen on; 0 for a free one',
      wholeNumberOption(0, 65_535),
      8090,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--stream <stream>',
      'check signatures of this stream: its secret, the keys of the tenant',
    )
    .option('--secret <whsec>', 'check signatures with this secret; other users can see it')
    .option('--secret-file <file>', 'check signatures with the secret in a file (- for stdin)')
    .option(
      '--status <code>',
      'respond with this status instead of 204',
      wholeNumberOption(200, 599),
    )
    .option(
      '--fail <count>',
      'respond with 503 (or --status) to the first <count> requests in total, then 204',
      wholeNumberOption(1, 1_000_000),
    )
    .option('--delay <ms>', 'wait before the response', wholeNumberOption(0, 600_000), 0)
    .option('--count <count>', 'end after this many requests', wholeNumberOption(1, 1_000_000_000))
    .option('--body', 'print the whole event')
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
        ? run(deps, options, async (local) => {
            const secret = await secretOf(local, options);
            return listen(
              local,
              options,
              secret === undefined ? undefined : checkOf(local, secret),
            );
          })
        : runWithApi(deps, options, async (online) => {
            const id = await streamIdOf(online, options.stream ?? '');
            const path = pathOf`/event-streams/${id}/signing-secret`;
            const { body } = await online.api.send({ method: 'GET', path });
            const { secret } = Object(body) as { readonly secret?: unknown };
            // Without a secret every request would count as genuine.
            if (typeof secret === 'string' && isSecret(secret))
              return listen(online, options, checkOf(online, secret, online.api));
            const message = `${online.api.url} did not return the secret of the stream: add --secret-file <file>.`;
            throw new CommandFailed(exitCodes.failed, message);
          }),
    );
}

async function secretOf(
  { terminal, leat }: Run,
  options: ListenOptions,
): Promise<string | undefined> {
  const { secret, secretFile } = options;
  const text =
    secretFile === undefined ? secret : await secretOption('--secret-file', secretFile, terminal);
  if (text === undefined || isSecret(text)) return text;
  throw usageError(
    `The secret is not whsec_ and the base64 of 32 bytes: ${leat`streams secret <stream>`} prints it.`,
  );
}

function checkOf({ clock, terminal }: Run, secret: string, api?: ApiRun['api']): CheckSignature {
  return createSignatureCheck({ secret, api, clock, note: (text) => terminal.note(text) });
}

async function listen(local: Run, options: ListenOptions, check?: CheckSignature): Promise<void> {
  const { terminal, signal } = local;
  let received = 0;
  await new Promise<void>((resolve, reject) => {
    const server = createServer((request, response) => {
      const number = ++received;
      const ended = receive(
        local,
        { request, response },
        { options, checkSignature: check, number },
      );
      void ended.then(() => number === options.count && resolve(close(server)), reject);
    });
    server.on('error', (error) => reject(cannotListen(options, error)));
    server.listen(options.port, options.host, () => {
      terminal.note(hints(server, check !== undefined).join('\n'));
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
  const reason =
    error.code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${String(error.code)})`;
  const message = `${printable(host)}:${port} ${reason}: choose another with --port, or --port 0.`;
  return new CommandFailed(exitCodes.failed, message, { cause: error });
}

function hints(server: Server, isChecked: boolean): string[] {
  const bound = server.address();
  if (typeof bound !== 'object' || bound === null) return [];
  const address = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  const signatures = isChecked ? ['Signatures are checked.'] : [];
  return [
    `Listening on http://${address}:${bound.port}/; Ctrl-C ends it.`,
    ...signatures,
    `A server sends to this address only with LEAT_EGRESS_ALLOW=${bound.address} and LEAT_ALLOW_HTTP_ENDPOINTS=true.`,
  ];
}

interface ReceiveContext {
  readonly options: ListenOptions;
  readonly checkSignature: CheckSignature | undefined;
  /** 1-indexed. */
  readonly number: number;
}

async function receive(
  { terminal, clock, json, signal }: Run,
  exchange: { request: IncomingMessage; response: ServerResponse },
  { options, checkSignature, number }: ReceiveContext,
): Promise<void> {
  const webhook = await readWebhook(exchange, {
    clock,
    checkSignature,
    statusFor: (check) => statusOf(options, number, check),
  });
  if (typeof webhook === 'string') return terminal.note(webhook);
  const { body, event, status } = webhook;
  if (json) {
    terminal.print(webhookJson(webhook));
  } else {
    terminal.print(requestLine(webhook, terminal.paint));
    if (options.body === true)
      terminal.print(event === undefined ? printable(body) : indented(event));
  }
  if (options.delay > 0) await sleep(clock, options.delay, signal);
  exchange.response.writeHead(status).end();
}

/**
 * Returns the status of a response: 401 for a signature that is not valid, else the one that the
 * options ask for. `number` is 1-indexed.
 */
export function statusOf(
  { status, fail }: { readonly status?: number; readonly fail?: number },
  number: number,
  check: SignatureCheck | undefined,
): number {
  if (check !== undefined && check !== 'valid') return 401;
  if (fail === undefined) return status ?? 204;
  return number <= fail ? (status ?? 503) : 204;
}

/** Returns the line of a request: its time, event, signature check and response status. */
export function requestLine(
  { time, event, signature: check, status, path }: Omit<Webhook, 'method' | 'headers' | 'body'>,
  paint: Paint,
): string {
  const { type, id } = Object(event) as { readonly type?: unknown; readonly id?: unknown };
  const typeText = typeof type === 'string' ? printable(type) : 'no event';
  const idText = typeof id === 'string' ? printable(id) : printable(path);
  const signature =
    check === undefined ? [] : [paint(check === 'valid' ? 'green' : 'red', `signature ${check}`)];
  const response = paint(status < 300 ? 'green' : 'red', `→ ${status}`);
  const parts = [
    paint('dim', time.slice(11, 19)),
    typeText.padEnd(22),
    idText,
    ...signature,
    response,
  ];
  return parts.join('  ');
}
