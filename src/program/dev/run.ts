import { storeDevLogin } from '../../cli/dev-login.ts';
import { type CliEnv, variablesOverLogin } from '../../cli/env.ts';
import { CommandFailed, exitCodes } from '../../cli/errors.ts';
import { type ApiClient, createApiClient, pathOf } from '../../cli/http/api-client.ts';
import { openSession } from '../../cli/http/session.ts';
import { leatCommand } from '../../cli/leat-command.ts';
import { createSignatureCheck } from '../../cli/signature-check.ts';
import type { Terminal } from '../../cli/terminal/terminal.ts';
import type { Webhook } from '../../cli/webhook.ts';
import { sleep } from '../../core/sleep.ts';
import type { ProgramContext } from '../context.ts';
import { wordsOfThisProgram } from '../leat-word.ts';
import type { Arrivals } from './arrivals.ts';
import { aborted } from './ending.ts';
import { devEventType } from '../../cli/dev-options.ts';
import { type FirstEvent, publishFirst } from './first-event.ts';
import type { LocalReceiver } from './receiver.ts';
import { nextStepLines, streamName, webhookLines } from './text.ts';
import { hasEnded, removeFolder, type Throwaway } from './throwaway.ts';

/** What a run needs, read from its command line. */
export interface RunDeps {
  readonly context: ProgramContext;
  readonly env: CliEnv;
  readonly terminal: Terminal;
  readonly json: boolean;
  /** Whether the first delivery is all. */
  readonly isOnce: boolean;
  readonly event: FirstEvent;
  readonly arrivals: Arrivals;
}

/** What a run has started. */
export interface RunParts extends Throwaway {
  readonly folder: string;
  readonly receiver: LocalReceiver;
}

type Run = RunDeps & RunParts;

/** Delivers the first event and, unless that is all, logs in and stays until the signal aborts. */
export async function run(
  deps: Run,
  { cleanup, signal }: { cleanup: AsyncDisposableStack; signal: AbortSignal },
): Promise<void> {
  if (signal.aborted) return;
  const webhook = await deliverFirst(deps, signal);
  if (webhook === undefined) return;
  if (!deps.json) printFirst(deps, webhook);
  if (deps.isOnce) return;
  const profile = await logIn(deps, cleanup);
  await printNext(deps, { profile, webhook });
  deps.arrivals.follow();
  await aborted(signal);
}

/** Returns the webhook of the first event; `undefined` when the signal aborts before it arrives. */
async function deliverFirst(deps: Run, signal: AbortSignal): Promise<Webhook | undefined> {
  const { context, terminal, arrivals, event } = deps;
  const api = await apiOf(deps, signal);
  await createStream(deps, api);
  terminal.progress(`Publishing ${event.type} …`);
  await publishFirst(api, event, context.clock.now());
  const waiting = new AbortController();
  const end = AbortSignal.any([signal, waiting.signal]);
  const webhook = await Promise.race([arrivals.first, sleep(context.clock, waitMsMax, end)]);
  // Its timer would keep the process.
  waiting.abort();
  terminal.progress(undefined);
  if (webhook !== undefined) return webhook;
  if (signal.aborted) return undefined;
  throw new CommandFailed(
    exitCodes.unavailable,
    `The event did not arrive within ${waitMsMax / 1000} s: is this machine very busy? Try again.`,
  );
}

const waitMsMax = 30_000;

async function apiOf(
  { context, terminal, service, client }: Run,
  signal: AbortSignal,
): Promise<ApiClient> {
  const { clock, random, version } = context;
  const leat = leatCommand({});
  const env = { url: service.url, clientId: client.id, clientSecret: client.secret, noColor: true };
  const deps = { clock, random, version, env, leat, signal, note: terminal.note };
  return createApiClient(await openSession(deps, {}), deps);
}

/** Creates the stream to the receiver, which checks signatures with its secret from then on. */
async function createStream(
  { context, terminal, receiver, event }: Run,
  api: ApiClient,
): Promise<void> {
  const types = new Set([event.type, 'order.paid', 'user.created', 'user.updated', 'user.deleted']);
  const { body: stream } = await api.send({
    method: 'POST',
    path: '/event-streams',
    body: {
      name: streamName,
      subscriptions: [...types].map((type) => ({ event_type: type })),
      destination: {
        type: 'webhook',
        configuration: {
          webhook_endpoint: `${receiver.url}/`,
          webhook_authorization: {
            method: 'bearer',
            token: Buffer.from(context.random(16)).toString('hex'),
          },
        },
      },
    },
  });
  const { id } = stream as { readonly id: string };
  const path = pathOf`/event-streams/${id}/signing-secret`;
  const { secret } = (await api.send({ method: 'GET', path })).body as { readonly secret: string };
  const { clock } = context;
  receiver.checkSignature = createSignatureCheck({ secret, clock, note: terminal.note });
}

function printFirst({ context, terminal, service, folder, event }: Run, webhook: Webhook): void {
  const made =
    event.type === devEventType && event.data === undefined
      ? 'A user was created. Its event'
      : 'An event was published. It';
  const lines = [
    `Leat ${context.version} is up at ${service.url}, with its data in ${folder}.`,
    `${made} arrived at the receiver of this command, which checked the signature:`,
    '',
    ...webhookLines(webhook, terminal.paint),
  ];
  for (const line of lines) terminal.print(line);
}

/** Stores a login for other terminals until the end. Returns the name of its profile. */
async function logIn(
  { context, env, terminal, service, client, folder }: Run,
  cleanup: AsyncDisposableStack,
): Promise<string | undefined> {
  const login = await storeDevLogin(
    {
      url: service.url,
      clientId: client.id,
      clientSecret: client.secret,
      audience: '/api/v2/',
      devFolder: folder,
    },
    { env, clock: context.clock, random: context.random, hasEnded },
  );
  cleanup.defer(login.remove);
  await Promise.all(login.left.map(removeFolder));
  const variables = variablesOverLogin(env);
  if (variables.length > 0) {
    terminal.note(`For other commands than those below: unset ${variables.join(' ')}`);
  }
  return login.profile;
}

async function printNext(
  { context, terminal, json, service, receiver, event }: Run,
  { profile, webhook }: { profile: string | undefined; webhook: Webhook },
): Promise<void> {
  const program = wordsOfThisProgram();
  if (json) {
    const logins = profile === undefined ? '' : ` --profile ${profile}`;
    return terminal.note(`Leat is up at ${service.url}; other terminals are logged in${logins}.`);
  }
  // Other outputs may be logs, whose readers must not sign in.
  const consoleLink = context.stdout.isTTY ? await service.consoleLink() : undefined;
  const lines = nextStepLines({
    leat: leatCommand({ program, profile }),
    receiverUrl: receiver.url,
    event,
    eventId: String(webhook.headers['webhook-id']),
    consoleLink,
  });
  for (const line of ['', ...lines]) terminal.print(line);
}
