#!/usr/bin/env -S node --max-semi-space-size=16 --v8-pool-size=0
/** The `leat` program: sub-commands, what they print, and the one map from errors to exit codes. */
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { Command, CommanderError } from 'commander';
import type { Logger } from 'pino';
import packageJson from '../package.json' with { type: 'json' };
import type { Credentials, DeliverCredentials } from './auth/clients.ts';
import type { CliDeps } from './cli/command.ts';
import { CommandFailed, exitCodes } from './cli/errors.ts';
import { addHttpCommands } from './cli/program.ts';
import { addServiceExamples } from './cli/service-examples.ts';
import { createTerminal } from './cli/terminal/terminal.ts';
import { systemClock, systemRandom } from './clock.ts';
import {
  messageProcessCommand,
  type StartMessage,
  runMessageProcess,
  startMessageProcess,
} from './program/message-process.ts';
import {
  type Config,
  dataFolderOf,
  describeConfig,
  type Loaded,
  loadCliEnv,
  loadConfig,
  loadTexts,
  type Texts,
} from './config.ts';
import { type LeatError, StartRefused, StoreUnavailable } from './core/errors.ts';
import { type StoreLocation, storeLocation } from './core/value.ts';
import type { MessageService } from './program/message-service.ts';
import {
  describeMessageSettings,
  type MessageSettings,
  readMessageSettings,
} from './messages/settings.ts';
import { addOperatorCommands, type OperatorDeps } from './operator/program.ts';
import { credentialsFile, writeCredentials, readSecretKey } from './files/data-folder.ts';
import type { Service } from './program/service.ts';

const { version } = packageJson;

// What only some commands need is loaded by them: a command of the client must not wait until the
// whole service and its libraries are read, which takes three times as long as all the rest.

const services: readonly string[] = ['start', 'serve', 'messages', messageProcessCommand];

function buildProgram(): Command {
  const program = new Command('leat')
    .description('Self-hosted event streams: a durable event log, delivered to webhooks.')
    .version(version)
    // Inherited by every command that is added: wrong words end with another code than a refusal.
    .exitOverride()
    // What serves ends by signals alone: without its output it is broken, and not done.
    .hook('preAction', (_program, command) => {
      if (!services.includes(command.name())) watchOutput();
    })
    .commandsGroup('Service, on this machine:');
  program
    .command('start')
    .description('run the management API and the message API, and print how to reach them')
    .action(() => start());
  program
    .command('serve')
    .description('run the management API alone')
    .action(() => serve());
  program
    .command('messages')
    .description('run the message API alone, with tokens of any authorization server')
    .action(() => messages());
  program.command(messageProcessCommand, { hidden: true }).action(() => messageProcess());
  program
    .command('config')
    .description('print every setting, the value in force and what it means')
    .action(() => {
      const loaded = load();
      print([...describeConfig(loaded), ...describeMessageSettings(loaded.texts)].join('\n'));
    });
  program
    .command('openapi')
    .description('print the OpenAPI document of the management API')
    .action(async () => {
      const { openapiDocument } = await import('./api/reference/openapi.ts');
      print(JSON.stringify(openapiDocument(), undefined, 2));
    });
  addOperatorCommands(program, operatorDeps());
  program
    .command('migrate-store')
    .description('carry a whole store from SQLite to PostgreSQL; can be run again when cut off')
    .requiredOption('--from <store>', 'what is carried over, and stays as it is: sqlite:<path>')
    .requiredOption('--to <store>', 'an empty database: postgres://user@host/database')
    .action((ends: Record<'from' | 'to', string>) => runMigrateStore(ends));
  addHttpCommands(program, clientDeps());
  addServiceExamples(program);
  return program;
}

function clientDeps(): CliDeps {
  return {
    clock: systemClock,
    random: systemRandom,
    version,
    env: loadCliEnv(),
    streams: process,
    interruption: () => {
      const interruption = new AbortController();
      process.on('SIGINT', () => interruption.abort());
      return interruption.signal;
    },
  };
}

function operatorDeps(): OperatorDeps {
  return {
    load,
    openAdmin: async ({ config }) => {
      const { createAdmin } = await import('./program/admin.ts');
      return createAdmin({ config, clock: systemClock, random: systemRandom });
    },
    addressesOf: async ({ config }) => {
      const { openNetwork } = await import('./program/network.ts');
      return openNetwork({ config, clock: systemClock }).addressesOf;
    },
    alertSenders: async ({ config }) => {
      const { createAlertChannels } = await import('./alerting/channels.ts');
      const { openNetwork } = await import('./program/network.ts');
      const { fetch, lookup } = openNetwork({ config, clock: systemClock });
      const log = await openLog(config.logLevel);
      return createAlertChannels(config, {
        fetch,
        lookup,
        log,
        clock: systemClock,
        userAgent: `Leat/${version}`,
      });
    },
    clock: systemClock,
    random: systemRandom,
    nodeVersion: process.version,
    terminal: createTerminal(process, { colour: false }),
    stderr: process.stderr,
    interruption: () => {
      const interruption = new AbortController();
      for (const signal of ['SIGINT', 'SIGTERM'] as const) {
        process.once(signal, () => interruption.abort());
      }
      return interruption.signal;
    },
  };
}

/** The key is that of the configuration, else the one that was made beside the source. */
async function runMigrateStore(ends: Record<'from' | 'to', string>): Promise<void> {
  const from = storeOf('--from', ends.from);
  const to = storeOf('--to', ends.to);
  const { config } = load();
  const { secretKey } = config;
  const folder = dataFolderOf({ store: from });
  const { describeMigrated, migrateStore } = await import('./store/migrate-store/migrate-store.ts');
  const { createMigrateProgress } = await import('./store/migrate-store/progress.ts');
  const moved = await migrateStore({
    from,
    to,
    secretKey: async () => secretKey ?? keptKey(folder),
    random: systemRandom,
    clock: systemClock,
    progress: createMigrateProgress(process.stderr, systemClock.elapsedMs),
  });
  if (moved.wasComplete) return print(describeMigrated(moved));
  const key =
    secretKey === undefined ? ` and LEAT_SECRET_KEY to what ${folder}/secret.key has` : '';
  print(`${describeMigrated(moved)}\nNext: set LEAT_STORE to the database${key}, then leat start.`);
}

/** Does not repeat the text: it may hold a password. */
function storeOf(option: string, text: string): StoreLocation {
  const parsed = storeLocation(text);
  if ('value' in parsed) return parsed.value;
  throw new StartRefused(`${option}: what it names ${parsed.problem}`);
}

/** Never makes a key: a new one opens nothing. */
async function keptKey(folder: string): Promise<Uint8Array> {
  const key = await readSecretKey(folder);
  if (key !== undefined) return key;
  throw new StartRefused(
    `LEAT_SECRET_KEY: is not set and ${folder} has no secret.key, set the key the source was first started with`,
  );
}

/** The management API and, in a second process, the message API: both, or neither. */
async function start(): Promise<void> {
  const signals = listenForSignals();
  const loaded = load();
  const settings = readMessages(loaded.texts, { alone: false });
  refuseSamePort(loaded.config, settings);
  const { logLevel } = loaded.config;
  const { issuerFor } = await import('./program/message-service.ts');
  const order = { settings, issuer: issuerFor(settings, loaded.config), logLevel };
  const program = fileURLToPath(import.meta.url);
  // First, because it makes nothing: where it cannot start, nothing was begun.
  const second = await startMessageProcess(order, { program, clock: systemClock });
  const end = (first: Pick<Service, 'stop'>): Promise<unknown> =>
    Promise.all([first.stop(), second.stop()]);
  try {
    const service = await startManagement(loaded, settings.audience);
    signals.onFirst(() => void end(service).then(() => process.exit(0), fail));
    const work = Promise.race([service.work, second.work]);
    void work.catch((error: unknown) => end(service).then(() => fail(error), fail));
    print(welcome(service, second.url, settings));
  } catch (error) {
    await second.stop();
    throw error;
  }
}

/** The management API alone. */
async function serve(): Promise<void> {
  const signals = listenForSignals();
  const service = await startManagement(load());
  service.work.catch(fail);
  if (service.metricsUrl !== undefined) print(`Metrics are at ${service.metricsUrl}`);
  signals.onFirst(() => void service.stop().then(() => process.exit(0), fail));
}

async function startManagement(
  { config, warnings }: Loaded,
  sampleAudience?: string,
): Promise<Service> {
  const log = await openLog(config.logLevel);
  for (const warning of warnings) log.warn(warning);
  const hands = handsOf(config);
  const { startService } = await import('./program/service.ts');
  const service = await startService({
    config,
    clock: systemClock,
    random: systemRandom,
    log,
    version,
    deliverCredentials: hands?.management,
    sample:
      hands === undefined || sampleAudience === undefined
        ? undefined
        : { audience: sampleAudience, deliverCredentials: hands.sample },
  });
  const { generated, sampleMade } = service.bootstrapped;
  if ((generated !== undefined || sampleMade) && !process.stdout.isTTY) {
    print(`Ids and secrets of the clients made are in ${credentialsFile(dataFolderOf(config))}`);
  }
  if (service.authorityFile !== undefined) print(`NODE_EXTRA_CA_CERTS=${service.authorityFile}`);
  return service;
}

/** The message API alone, with nothing but its own settings. */
async function messages(): Promise<void> {
  const signals = listenForSignals();
  const texts = loadTexts();
  if ('problems' in texts) throw new StartRefused(texts.problems.join('\n'));
  const settings = readMessages(texts, { alone: true });
  const { issuerFor } = await import('./program/message-service.ts');
  const order = { settings, issuer: issuerFor(settings), logLevel: 'info' };
  const service = await startMessages(order);
  signals.onFirst(() => void service.stop().then(() => process.exit(0), fail));
  print(`The message API is up at ${service.url}/api/messages/public`);
}

/** The message API as the second process of `leat start`. */
async function messageProcess(): Promise<void> {
  // A terminal sends its signals to both processes; the first one decides when this one ends.
  process.on('SIGINT', () => {}).on('SIGTERM', () => {});
  await runMessageProcess(process, startMessages);
  process.exit(0);
}

async function startMessages(order: StartMessage): Promise<MessageService> {
  const { startMessageService } = await import('./program/message-service.ts');
  const log = await openLog(order.logLevel);
  return startMessageService({ ...order, clock: systemClock, log });
}

function readMessages(texts: Texts, rule: { readonly alone: boolean }): MessageSettings {
  const reading = readMessageSettings(texts, rule);
  if ('problems' in reading) throw new StartRefused(reading.problems.join('\n'));
  return reading.settings;
}

function refuseSamePort(config: Config, { port, portVariable }: MessageSettings): void {
  if (port !== config.port) return;
  const other = port === 6060 ? 6061 : 6060;
  throw new StartRefused(
    `${portVariable}: ${port} is LEAT_PORT too, choose another, for example ${portVariable}=${other}`,
  );
}

async function openLog(level: string): Promise<Logger> {
  const { default: pino } = await import('pino');
  return pino({ level, base: null }, pino.destination({ fd: 2, sync: true }));
}

/**
 * Ways to hand credentials over: once on the terminal, else in a file that only the operator can
 * read. None where there is neither.
 */
function handsOf(config: Config): Record<'management' | 'sample', DeliverCredentials> | undefined {
  if (process.stdout.isTTY) {
    return {
      management: async (made) => print(shownOnce('The management client', made)),
      sample: async (made) => print(shownOnce('A client for the message API', made)),
    };
  }
  if (config.store.engine !== 'sqlite') return undefined;
  const folder = dataFolderOf(config);
  return {
    management: (made) => writeCredentials(folder, { management: made }, systemRandom),
    sample: (made) => writeCredentials(folder, { sample: made }, systemRandom),
  };
}

function shownOnce(what: string, { clientId, clientSecret }: Credentials): string {
  return `${what}, shown this once:\n  id      ${clientId}\n  secret  ${clientSecret}`;
}

function welcome(
  { url, authorityFile, metricsUrl, bootstrapped: { generated } }: Service,
  messagesUrl: string,
  { audience }: MessageSettings,
): string {
  const id = generated?.clientId ?? '<client id>';
  const metrics = metricsUrl === undefined ? '' : `\n  metrics          ${metricsUrl}`;
  const curl = authorityFile === undefined ? 'curl' : `curl --cacert ${authorityFile}`;
  return `
Leat ${version} is up.
  management API   ${url}/api/v2
  reference        ${url}/docs
  OpenAPI          ${url}/api/v2/openapi.json
  token endpoint   ${url}/oauth/token
  message API      ${messagesUrl}/api/messages/public${metrics}

The first three requests, with the client's id and secret in place:

  TOKEN=$(${curl} -s ${url}/oauth/token -d grant_type=client_credentials -d audience=/api/v2/ \\
    -d client_id=${id} -d client_secret=<secret> | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')

  ${curl} -X POST ${url}/api/v2/event-streams -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"name": "first",
      "subscriptions": [{"event_type": "user.created"}],
      "destination": {"type": "webhook", "configuration": {
        "webhook_endpoint": "https://example.com/hook",
        "webhook_authorization": {"method": "bearer", "token": "a token of yours"}}}}'

  ${curl} -X POST ${url}/api/v2/users -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"email": "ada@example.com",
      "password": "correct-horse-battery", "connection": "Username-Password-Authentication"}'

The message API takes tokens of the audience ${audience};
the client messages-sample gets one that opens all three messages:

  curl ${messagesUrl}/api/messages/admin -H "Authorization: Bearer $TOKEN"

Ctrl-C ends it after the attempts under way; a second Ctrl-C ends it at once.`;
}

/**
 * A signal while the service starts ends the program at once: every step of a start is atomic, and
 * the next start completes it. Later the first signal drains and the second ends at once; nothing
 * acknowledged is lost by either. Listened for from the start, because the first process of a
 * container ignores signals that it does not listen for.
 */
function listenForSignals(): { onFirst(drain: () => void): void } {
  let first: (() => void) | undefined;
  const listen = (signal: 'SIGINT' | 'SIGTERM'): void => {
    process.on(signal, () => {
      const drain = first;
      first = undefined;
      if (drain === undefined) process.exit(128 + constants.signals[signal]);
      drain();
    });
  };
  listen('SIGINT');
  listen('SIGTERM');
  return {
    onFirst: (drain) => {
      first = drain;
    },
  };
}

function load(): Loaded {
  const reading = loadConfig();
  if ('problems' in reading) throw new StartRefused(reading.problems.join('\n'));
  return reading;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Errors to exit codes: one line for what the operator can mend, the whole trace for a bug. */
function fail(error: unknown): never {
  // The parser has said already what is wrong with the words, or shown the help that was asked for.
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : exitCodes.usage);
  if (error instanceof CommandFailed) {
    if (error.message !== '') process.stderr.write(`${error.message}\n`);
    process.exit(error.exitCode);
  }
  const text = isMendable(error) ? error.message : inspect(error);
  process.stderr.write(`${text}\n`);
  process.exit(1);
}

function isMendable(error: unknown): error is LeatError {
  return error instanceof StartRefused || error instanceof StoreUnavailable;
}

/**
 * Whoever reads the output may have read enough, as head does: that ends the program and is no
 * failure. A result that cannot be written, as on a full disk, is one. Hints may stay unread.
 */
function watchOutput(): void {
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(exitCodes.done);
    process.stderr.write(`The output cannot be written (${error.code ?? error.message}).\n`);
    process.exit(exitCodes.failed);
  });
}

try {
  await buildProgram().parseAsync();
} catch (error) {
  fail(error);
}
