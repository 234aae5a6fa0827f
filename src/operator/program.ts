import { type Command, Option } from 'commander';
import type { Admin } from '../program/admin.ts';
import { CommandFailed, exitCodes } from '../cli/errors.ts';
import type { Terminal } from '../cli/terminal/terminal.ts';
import type { Loaded } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { consoleRoles } from '../core/console-session.ts';
import { StartRefused } from '../core/errors.ts';
import type { AlertChannel } from '../alerting/channel.ts';
import type { Args, ProgressPoint } from './command.ts';
import { refuseMissingStore } from './store-file.ts';
import { countText } from './table.ts';

export interface OperatorDeps {
  readonly load: () => Loaded;
  /** Opens access to the store; loads its modules on use. */
  readonly openAdmin: (loaded: Loaded) => Promise<Admin>;
  /** Returns the alert channels of the settings. */
  readonly alertChannels: (loaded: Loaded) => Promise<readonly AlertChannel[]>;
  /** Returns a function that resolves names as the server does. */
  readonly addressesOf: (loaded: Loaded) => Promise<(host: string) => Promise<readonly string[]>>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly nodeVersion: string;
  /** The folder that has the documents in `docs`; absent for the single executable. */
  readonly programFolder: string | undefined;
  readonly terminal: Terminal;
  readonly stderr: NodeJS.WriteStream;
  /** Listens for signals; aborts at the first SIGINT or SIGTERM. */
  readonly interruption: () => AbortSignal;
}

/** Adds the commands on the store of this machine's service, which may run or not. */
export function addOperatorCommands(program: Command, deps: OperatorDeps): void {
  const run = (command: string, args?: Args): Promise<void> => runCommand(deps, command, args);
  program
    .command('status')
    .description('print nodes, size of the store, and for each tenant log, streams and lag')
    .option('--json', 'print JSON for programs')
    .action((options: Args) => run('status', options));
  program
    .command('nodes')
    .description('print the nodes on this store and how many streams each owns')
    .option('--json', 'print JSON for programs')
    .action((options: Args) => run('nodes', options));
  addTenantCommands(program.command('tenants').description('tenants of this service'), deps);
  addKeyCommands(
    program.command('keys').description('keys that sign access tokens and webhooks'),
    run,
  );
  addConsoleCommands(program.command('console'), run);
  program
    .command('secrets')
    .description('the key that encrypts stored secrets (LEAT_SECRET_KEY)')
    .command('rotate')
    .description('encrypt every stored secret again with the new key, while the service runs')
    .action(() => run('secrets rotate'));
  program
    .command('backup <file>')
    .description('copy the store into a new file, while the service runs')
    .action((file: string) => backup(deps, file));
  program
    .command('restore <file>')
    .description('restore a backup to LEAT_STORE, which must not exist')
    .action((file: string) => restore(deps, file));
  program
    .command('doctor')
    .description(
      'check settings, store, database, disk, clock, TLS, egress, limits and alerts; exit code 1 for a fault',
    )
    .option('--test-alert', 'send a test alert to each configured channel')
    .option('--vacuum', 'with the service stopped: return free space of a SQLite file to the disk')
    .option('--json', 'print JSON for programs')
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
    .description('create a tenant and print its bootstrap client')
    .action((name: string, domain: string) => run('tenants create', { name, domain }));
  tenants
    .command('bootstrap <name>')
    .description('create a new bootstrap client and revoke the secret of the former one')
    .action((name: string) => run('tenants bootstrap', { name }));
  tenants
    .command('delete <name>')
    .description('stop the streams of a tenant and remove all its data')
    .option('--yes <name>', 'the name again, to confirm without a terminal')
    .action((name: string, { yes }: { yes?: string }) => deleteTenant(deps, name, yes));
}

type Run = (command: string, args?: Args) => Promise<void>;

const tenantOption = ['--tenant <name>', 'tenant; default: the first one'] as const;

function addConsoleCommands(command: Command, run: Run): void {
  command
    .description('print a one-time link that signs in to the web console; list and end sessions')
    .addOption(
      new Option('--role <role>', 'what the link lets its user do')
        .choices(consoleRoles)
        .default('operator'),
    )
    .option(...tenantOption)
    .action((options: Args) => run('console', options));
  command
    .command('sessions')
    .description('print the open sessions of the console, newest first')
    .option(...tenantOption)
    .action((_options: Args, self: Command) => run('console sessions', tenantOf(self)));
  command
    .command('end [id]')
    .description('end one session of the console, or all of a tenant')
    .option('--all', 'all sessions of the tenant, and one-time links that are not used')
    .option(...tenantOption)
    .action((id: string | undefined, { all }: { all?: boolean }, self: Command) => {
      if ((id === undefined) !== (all === true)) {
        throw new CommandFailed(
          exitCodes.usage,
          'Name one session, which leat console sessions shows, or all of a tenant with --all.',
        );
      }
      return run('console end', { ...tenantOf(self), id, all });
    });
}

/** Returns the tenant of a sub-command of `console`, which takes its options wherever they are. */
function tenantOf(command: Command): Args {
  // Ending all sessions must not look as if it ended those of one role.
  if (command.parent?.getOptionValueSource('role') === 'cli') {
    throw new CommandFailed(
      exitCodes.usage,
      `--role does not go with leat console ${command.name()}.`,
    );
  }
  const { tenant } = command.optsWithGlobals<{ tenant?: string }>();
  return { tenant };
}

function addKeyCommands(keys: Command, run: Run): void {
  keys
    .command('list')
    .option(...tenantOption)
    .description('print the published keys, newest first')
    .action(({ tenant }: { tenant?: string }) => run('keys list', { tenant }));
  keys
    .command('rotate')
    .option(...tenantOption)
    .option('--now', 'sign with the new key immediately, not 10 minutes later')
    .option('--webhooks', 'the key that signs webhooks (v1a), not the one that signs tokens')
    .description('publish a new key and sign with it')
    .action((options: RotateOptions) => run('keys rotate', options));
  keys
    .command('revoke <kid>')
    .option(...tenantOption)
    // One key id in 64 begins with a dash, also -h….
    .allowUnknownOption()
    .helpOption('--help', 'display help for command')
    .description('remove a key; what was signed with it is rejected')
    .action((kid: string, { tenant }: { tenant?: string }) => run('keys revoke', { kid, tenant }));
}

type RotateOptions = Readonly<{ tenant?: string; now?: boolean; webhooks?: boolean }>;

async function runCommand(deps: OperatorDeps, command: string, args?: Args): Promise<void> {
  const admin = await deps.openAdmin(deps.load());
  const text = await withProgress(deps, (caller) => admin.run(command, args, caller));
  if (text !== '') deps.terminal.print(text);
}

/** Shows progress, and ends the command when it is interrupted. */
async function withProgress<T>(
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
  // Rejects what cannot be deleted before the question.
  await admin.run('tenants delete', { name, dry: true });
  if (yes === undefined && !terminal.interactive) {
    throw new CommandFailed(
      exitCodes.usage,
      `This is no terminal to confirm on: leat tenants delete ${name} --yes ${name} deletes it with all its data.`,
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
  terminal.print(
    await withProgress(deps, (caller) => admin.run('tenants delete', { name }, caller)),
  );
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
  refuseMissingStore(loaded.config);
  const admin = await deps.openAdmin(loaded);
  const { writeBackup } = await import('./backup-file.ts');
  const { random, terminal } = deps;
  const text = await withProgress(deps, (caller) =>
    writeBackup(file, { ...caller, admin, random, note: terminal.note }),
  );
  terminal.print(text);
}

async function restore(deps: OperatorDeps, file: string): Promise<void> {
  const { config } = deps.load();
  const { clock, random, terminal } = deps;
  const { restore: restoreFrom } = await import('./restore.ts');
  const text = await withProgress(deps, ({ signal }) =>
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
  const { findingLines, withDocumentPaths } = await import('./finding.ts');
  const addressesOf = await deps.addressesOf(loaded);
  const { clock, random, nodeVersion, programFolder, terminal } = deps;
  const found = await withProgress(deps, async ({ signal }) =>
    examine({
      loaded,
      admin,
      clock,
      random,
      nodeVersion,
      signal,
      addressesOf,
      testAlert: testAlert === true ? await deps.alertChannels(loaded) : undefined,
    }),
  );
  const findings = withDocumentPaths(found, programFolder);
  terminal.print(
    json === true ? JSON.stringify(findings, undefined, 2) : findingLines(findings).join('\n'),
  );
  const faults = findings.filter(({ level }) => level === 'bad').length;
  if (faults > 0) throw new CommandFailed(exitCodes.failed, '');
}

async function vacuum(deps: OperatorDeps): Promise<void> {
  const { config } = deps.load();
  const { store } = config;
  if (store.engine !== 'sqlite' || store.file === undefined) {
    throw new StartRefused(
      'LEAT_STORE: --vacuum is for SQLite files only; PostgreSQL vacuums automatically.',
    );
  }
  refuseMissingStore(config);
  const { vacuum: vacuumFile } = await import('../store/engine/sqlite/vacuum.ts');
  const { bytesText } = await import('./table.ts');
  deps.terminal.note('Rewriting the file; this takes about a second per 100 MB …');
  const { before, after } = vacuumFile({ ...store, file: store.file });
  deps.terminal.print(
    `${store.file}: ${bytesText(before)} before, ${bytesText(after)} now; from now on it shrinks as events are removed.`,
  );
}

/** Shows the progress of a command. */
interface ProgressView {
  show(point: ProgressPoint): void;
  /** Clears the line on a terminal. */
  end(): void;
}

/** Without a terminal, a command shorter than this prints no progress. */
const quietMs = 2000;

/** Creates a view: one updated line on a terminal, else a line per quarter or per minute. */
function createProgressView(
  out: Pick<NodeJS.WriteStream, 'isTTY' | 'write'> & { readonly columns?: number | undefined },
  nowMs: () => number,
): ProgressView {
  let last: { readonly step: string; readonly quarter: number; readonly ms: number } | undefined;
  let shown = false;
  const began = nowMs();
  return {
    show: (point) => {
      const text = progressText(point);
      if (out.isTTY) {
        shown = true;
        // A line as wide as the terminal may wrap; an unknown width is 0.
        const width = out.columns ?? 0;
        out.write(`\r${width === 0 ? text : text.slice(0, width - 1)}\u001b[K`);
        return;
      }
      const { step, done, total } = point;
      const quarter = total === undefined || total === 0 ? 0 : Math.floor((4 * done) / total);
      const ms = nowMs();
      if (ms - began < quietMs) return;
      if (last?.step === step && last.quarter === quarter && ms - last.ms < 60_000) return;
      last = { step, quarter, ms };
      out.write(`${text}\n`);
    },
    end: () => {
      if (shown) out.write('\r\u001b[K');
      shown = false;
    },
  };
}

function progressText({ step, done, total }: ProgressPoint): string {
  if (total === undefined) return `${step}: ${countText(done)}`;
  const percent = total === 0 ? 100 : Math.floor((100 * done) / total);
  return `${step}: ${countText(done)} of ${countText(total)} (${percent} %)`;
}
