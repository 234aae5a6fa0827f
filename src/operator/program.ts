import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import type { Admin } from '../program/admin.ts';
import { CommandFailed, exitCodes } from '../cli/errors.ts';
import type { Terminal } from '../cli/terminal/terminal.ts';
import type { Loaded } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import type { AlertChannel } from '../alerting/channel.ts';
import type { Args } from './command.ts';
import { createProgressView } from './progress.ts';

export interface OperatorDeps {
  readonly load: () => Loaded;
  /** Opens the way to the store: what it needs is loaded by the commands that use it. */
  readonly openAdmin: (loaded: Loaded) => Promise<Admin>;
  readonly alertSenders: (loaded: Loaded) => Promise<readonly AlertChannel[]>;
  /** Returns what resolves names as the server does. */
  readonly addressesOf: (loaded: Loaded) => Promise<(host: string) => Promise<readonly string[]>>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly nodeVersion: string;
  readonly terminal: Terminal;
  readonly stderr: NodeJS.WriteStream;
  /** Aborted by the first SIGINT or SIGTERM, which then does not end the program by itself. */
  readonly interruption: () => AbortSignal;
}

/** Adds the commands that work on the store of this machine's service, whether it runs or not. */
export function addOperatorCommands(program: Command, deps: OperatorDeps): void {
  const run = (command: string, args?: Args): Promise<void> => runCommand(deps, command, args);
  program
    .command('status')
    .description('print nodes, size of the store, and for each tenant log, streams and lag')
    .option('--json', 'for programs')
    .action((options: Args) => run('status', options));
  program
    .command('nodes')
    .description('print the nodes on this store and how many streams each works for')
    .option('--json', 'for programs')
    .action((options: Args) => run('nodes', options));
  addTenantCommands(program.command('tenants').description('tenants of this service'), deps);
  addKeyCommands(program.command('keys').description('keys that sign access tokens'), run);
  program
    .command('backup <file>')
    .description('copy the store into a new file, while the service runs')
    .action((file: string) => backup(deps, file));
  program
    .command('restore <file>')
    .description('put a backup in the place that LEAT_STORE names, where no store is')
    .action((file: string) => restore(deps, file));
  program
    .command('doctor')
    .description(
      'check settings, store, disk, clock, TLS, egress and alerts; exit code 1 for a fault',
    )
    .option('--test-alert', 'send a test alert to each place that is set')
    .option('--vacuum', 'with the service stopped: let a SQLite file give space back to the disk')
    .option('--json', 'for programs')
    .action((options: DoctorOptions) =>
      options.vacuum === true ? vacuum(deps) : doctor(deps, options),
    );
}

function addTenantCommands(tenants: Command, deps: OperatorDeps): void {
  const run = (command: string, args?: Args): Promise<void> => runCommand(deps, command, args);
  tenants
    .command('list')
    .description('print names and domains')
    .action(() => run('tenants list'));
  tenants
    .command('create <name> <domain>')
    .description('make a tenant and print its bootstrap client')
    .action((name: string, domain: string) => run('tenants create', { name, domain }));
  tenants
    .command('bootstrap <name>')
    .description('make a new bootstrap client and end the secret of the former one')
    .action((name: string) => run('tenants bootstrap', { name }));
  tenants
    .command('delete <name>')
    .description('end the streams of a tenant and remove everything that it has')
    .option('--yes <name>', 'its name again, where nobody can be asked for it')
    .action((name: string, { yes }: { yes?: string }) => deleteTenant(deps, name, yes));
}

function addKeyCommands(keys: Command, run: (command: string, args?: Args) => Promise<void>): void {
  const tenantOption = ['--tenant <name>', 'another tenant than the first'] as const;
  keys
    .command('list')
    .option(...tenantOption)
    .description('print the keys that are published, newest first')
    .action(({ tenant }: { tenant?: string }) => run('keys list', { tenant }));
  keys
    .command('rotate')
    .option(...tenantOption)
    .option('--now', 'sign with the new key at once, not 10 minutes later')
    .description('publish a new key and let it take over')
    .action((options: { tenant?: string; now?: boolean }) => run('keys rotate', options));
  keys
    .command('revoke <kid>')
    .option(...tenantOption)
    // One key in 64 has a name that begins with a dash.
    .allowUnknownOption()
    .description('remove a key and refuse every token signed with it')
    .action((kid: string, { tenant }: { tenant?: string }) => run('keys revoke', { kid, tenant }));
}

async function runCommand(deps: OperatorDeps, command: string, args?: Args): Promise<void> {
  const admin = await deps.openAdmin(deps.load());
  const text = await followed(deps, (caller) => admin.run(command, args, caller));
  if (text !== '') deps.terminal.print(text);
}

/** Shows progress, and makes an interruption the end of the command. */
async function followed<T>(
  { stderr, clock, interruption }: OperatorDeps,
  work: (caller: { progress: (point: Point) => void; signal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const view = createProgressView(stderr, clock.elapsedMs);
  const signal = interruption();
  try {
    return await work({ progress: view.show, signal });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CommandFailed(exitCodes.interrupted, 'Interrupted.');
  } finally {
    view.end();
  }
}

type Point = Parameters<ReturnType<typeof createProgressView>['show']>[0];

async function deleteTenant(
  deps: OperatorDeps,
  name: string,
  yes: string | undefined,
): Promise<void> {
  const { terminal } = deps;
  const admin = await deps.openAdmin(deps.load());
  // First what refuses it, then the question.
  await admin.run('tenants delete', { name, dry: true });
  if (yes === undefined && !terminal.interactive) {
    throw new CommandFailed(
      exitCodes.usage,
      `Nobody can be asked here: leat tenants delete ${name} --yes ${name} deletes it with everything that it has.`,
    );
  }
  const typed =
    yes ??
    (await terminal.ask(
      `${name} loses its streams, events, users, clients and keys for good.\nType its name to delete it: `,
    ));
  if (typed.trim() !== name) {
    throw new CommandFailed(exitCodes.usage, `That is not ${name}: nothing was deleted.`);
  }
  terminal.print(await followed(deps, (caller) => admin.run('tenants delete', { name }, caller)));
}

async function backup(deps: OperatorDeps, file: string): Promise<void> {
  const loaded = deps.load();
  const { store } = loaded.config;
  if (store.engine === 'postgres') {
    const { postgresBackup } = await import('./backup.ts');
    throw new StartRefused(postgresBackup);
  }
  if (store.file === undefined)
    throw new StartRefused('LEAT_STORE: a store in memory has no backup.');
  if (!existsSync(store.file)) throw new StartRefused(`LEAT_STORE: ${store.file} does not exist.`);
  const admin = await deps.openAdmin(loaded);
  const { writeBackup } = await import('./backup-file.ts');
  const { random, terminal } = deps;
  const text = await followed(deps, (caller) =>
    writeBackup(file, { ...caller, admin, random, note: terminal.note }),
  );
  terminal.print(text);
}

async function restore(deps: OperatorDeps, file: string): Promise<void> {
  const { config } = deps.load();
  const { clock, random, terminal } = deps;
  const { restore: restoreFrom } = await import('./restore.ts');
  const text = await followed(deps, ({ signal }) =>
    restoreFrom(file, { config, clock, random, note: terminal.note, signal }),
  );
  terminal.print(text);
}

interface DoctorOptions {
  readonly testAlert?: boolean;
  readonly vacuum?: boolean;
  readonly json?: boolean;
}

async function doctor(deps: OperatorDeps, { testAlert, json }: DoctorOptions): Promise<void> {
  const loaded = deps.load();
  const admin = await deps.openAdmin(loaded);
  const { examine } = await import('./doctor.ts');
  const { findingLines } = await import('./finding.ts');
  const addressesOf = await deps.addressesOf(loaded);
  const { clock, random, nodeVersion, terminal } = deps;
  const findings = await followed(deps, async ({ signal }) =>
    examine({
      loaded,
      admin,
      clock,
      random,
      nodeVersion,
      signal,
      addressesOf,
      testAlert: testAlert === true ? await deps.alertSenders(loaded) : undefined,
    }),
  );
  terminal.print(
    json === true ? JSON.stringify(findings, undefined, 2) : findingLines(findings).join('\n'),
  );
  const faults = findings.filter(({ level }) => level === 'bad').length;
  if (faults > 0) throw new CommandFailed(exitCodes.failed, '');
}

async function vacuum(deps: OperatorDeps): Promise<void> {
  const { store } = deps.load().config;
  if (store.engine !== 'sqlite' || store.file === undefined) {
    throw new StartRefused(
      'LEAT_STORE: only a SQLite file is converted; PostgreSQL sees to it itself.',
    );
  }
  if (!existsSync(store.file)) throw new StartRefused(`LEAT_STORE: ${store.file} does not exist.`);
  const { vacuum: vacuumFile } = await import('../store/sqlite/vacuum.ts');
  const { bytesText } = await import('./table.ts');
  deps.terminal.note('Writing the file anew; this takes about a second for 100 MB …');
  const { before, after } = vacuumFile({ ...store, file: store.file });
  deps.terminal.print(
    `${store.file}: ${bytesText(before)} before, ${bytesText(after)} now; from now on it shrinks as events leave it.`,
  );
}
