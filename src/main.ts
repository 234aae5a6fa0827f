#!/usr/bin/env -S node --max-semi-space-size=16
/** The `leat` program: sub-commands, what they print, and the one map from errors to exit codes. */
import { constants } from 'node:os';
import { inspect } from 'node:util';
import { Command } from 'commander';
import pino from 'pino';
import packageJson from '../package.json' with { type: 'json' };
import { createAdmin, type Admin } from './admin.ts';
import { openapiDocument } from './api/openapi.ts';
import type { Credentials } from './auth/clients.ts';
import { systemClock, systemRandom } from './clock.ts';
import { type Config, dataFolderOf, describeConfig, type Loaded, loadConfig } from './config.ts';
import { type LeatError, StartRefused, StoreUnavailable } from './core/errors.ts';
import { credentialsFile, keepCredentials } from './ops/data-folder.ts';
import { type Service, startService } from './service.ts';

const { version } = packageJson;

function buildProgram(): Command {
  const program = new Command('leat')
    .description('Self-hosted event streams: a durable event log, delivered to webhooks.')
    .version(version);
  program
    .command('start')
    .description('run the service and print how to reach it')
    .action(() => serve({ welcomes: true }));
  program
    .command('serve')
    .description('run the service')
    .action(() => serve({ welcomes: false }));
  program
    .command('config')
    .description('print every setting, the value in force and what it means')
    .action(() => print(describeConfig(load()).join('\n')));
  program
    .command('openapi')
    .description('print the OpenAPI document of the management API')
    .action(() => print(JSON.stringify(openapiDocument(), undefined, 2)));
  addTenantCommands(program.command('tenants').description('tenants of this service'));
  addKeyCommands(program.command('keys').description('keys that sign access tokens'));
  return program;
}

function addTenantCommands(tenants: Command): void {
  tenants
    .command('list')
    .description('print names and domains')
    .action(() => administer((admin) => admin.listTenants()));
  tenants
    .command('create <name> <domain>')
    .description('make a tenant and print its bootstrap client')
    .action((name: string, domain: string) =>
      administer((admin) => admin.createTenant(name, domain)),
    );
  tenants
    .command('bootstrap <name>')
    .description('make a new bootstrap client and end the secret of the former one')
    .action((name: string) => administer((admin) => admin.renewBootstrapClient(name)));
}

function addKeyCommands(keys: Command): void {
  const tenantOption = ['--tenant <name>', 'another tenant than the first'] as const;
  keys
    .command('list')
    .option(...tenantOption)
    .description('print the keys that are published, newest first')
    .action(({ tenant }: { tenant?: string }) => administer((admin) => admin.listKeys(tenant)));
  keys
    .command('rotate')
    .option(...tenantOption)
    .option('--now', 'sign with the new key at once, not 10 minutes later')
    .description('publish a new key and let it take over')
    .action(({ tenant, now }: { tenant?: string; now?: boolean }) =>
      administer((admin) => admin.rotateKey(now === true, tenant)),
    );
  keys
    .command('revoke <kid>')
    .option(...tenantOption)
    .description('remove a key and refuse every token signed with it')
    .action((kid: string, { tenant }: { tenant?: string }) =>
      administer((admin) => admin.revokeKey(kid, tenant)),
    );
}

async function administer(work: (admin: Admin) => Promise<string>): Promise<void> {
  const { config } = load();
  print(await work(createAdmin({ config, clock: systemClock, random: systemRandom })));
}

async function serve({ welcomes }: { welcomes: boolean }): Promise<void> {
  const signals = listenForSignals();
  const { config, warnings } = load();
  const log = pino({ level: config.logLevel, base: null }, pino.destination({ fd: 2, sync: true }));
  for (const warning of warnings) log.warn(warning);
  const canHandOver = config.store.engine === 'sqlite' || process.stdout.isTTY;
  const service = await startService({
    config,
    clock: systemClock,
    random: systemRandom,
    log,
    version,
    handOver: canHandOver ? (made) => handOver(made, config) : undefined,
  });
  service.work.catch(fail);
  signals.onFirst(() => void service.stop().then(() => process.exit(0), fail));
  if (service.bootstrapped.generated !== undefined && !process.stdout.isTTY) {
    print(`The management client's id and secret are in ${credentialsFile(dataFolderOf(config))}`);
  }
  if (welcomes) print(welcome(service));
}

/** Once, where the operator sees it: on the terminal, else in a file that only they can read. */
async function handOver(made: Credentials, config: Config): Promise<void> {
  const { clientId, clientSecret } = made;
  if (process.stdout.isTTY) {
    print(
      `The management client, shown this once:\n  id      ${clientId}\n  secret  ${clientSecret}`,
    );
  } else await keepCredentials(dataFolderOf(config), made, systemRandom);
}

function welcome({ url, bootstrapped: { generated } }: Service): string {
  const id = generated?.clientId ?? '<client id>';
  return `
Leat ${version} is up.
  management API   ${url}/api/v2
  OpenAPI          ${url}/api/v2/openapi.json
  token endpoint   ${url}/oauth/token

The first three requests, with the client's id and secret in place:

  TOKEN=$(curl -s ${url}/oauth/token -d grant_type=client_credentials -d audience=/api/v2/ \\
    -d client_id=${id} -d client_secret=<secret> | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')

  curl -X POST ${url}/api/v2/event-streams -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"name": "first",
      "subscriptions": [{"event_type": "user.created"}],
      "destination": {"type": "webhook", "configuration": {
        "webhook_endpoint": "https://example.com/hook",
        "webhook_authorization": {"method": "bearer", "token": "a token of yours"}}}}'

  curl -X POST ${url}/api/v2/users -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"email": "ada@example.com",
      "password": "correct-horse-battery", "connection": "Username-Password-Authentication"}'

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
  const text = isMendable(error) ? error.message : inspect(error);
  process.stderr.write(`${text}\n`);
  process.exit(1);
}

function isMendable(error: unknown): error is LeatError {
  return error instanceof StartRefused || error instanceof StoreUnavailable;
}

try {
  await buildProgram().parseAsync();
} catch (error) {
  fail(error);
}
