import { resolve } from 'node:path';
import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import {
  type CliDeps,
  type CommonOptions,
  examples,
  run,
  type Run,
  withCommonOptions,
} from './command.ts';
import {
  credentialsFile,
  type KeptToken,
  type Profile,
  readProfiles,
  writeProfiles,
} from './http/credentials.ts';
import { CommandFailed, usageError } from './http/errors.ts';
import { createHttp } from './http/http.ts';
import { secretOption } from './option.ts';
import {
  audienceOf,
  defaultProfile,
  requestToken,
  serverOrigin,
  warnOfPlainHttp,
} from './http/session.ts';

interface LoginOptions extends CommonOptions {
  readonly clientId?: string;
  readonly clientSecretFile?: string;
}

/** `leat login` and `leat logout`. */
export function addLoginCommands(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('login <url>'))
    .description('log in to a server and keep the credentials for the other commands')
    .option('--client-id <id>', 'id of the client (or LEAT_CLIENT_ID)')
    .option(
      '--client-secret-file <file>',
      'file with its secret; else it is asked for, or read from the standard input',
    )
    .addHelpText(
      'after',
      examples(
        'leat login http://localhost:8080',
        'leat login https://leat.example.com --client-id operator --client-secret-file secret.txt',
        'pass show leat | leat login https://leat.example.com --client-id operator --profile live',
      ),
    )
    .action((url: string, options: LoginOptions) =>
      run(deps, options, (local) => login(local, url, options)),
    );
  withCommonOptions(program.command('logout'))
    .description('forget the credentials of a login')
    .option('--all', 'of every login')
    .addHelpText(
      'after',
      examples('leat logout', 'leat logout --profile live', 'leat logout --all'),
    )
    .action((options: CommonOptions & { all?: boolean }) =>
      run(deps, options, (local) => logout(local, options)),
    );
}

async function login(local: Run, address: string, options: LoginOptions): Promise<void> {
  const { terminal, env } = local;
  const url = serverOrigin(address);
  const name = profileName(options.profile);
  warnOfPlainHttp(url, terminal.note);
  const clientId = options.clientId ?? env.clientId ?? (await askId(local));
  const clientSecret = await secretOf(local, options);
  const ca = options.ca ?? env.caFile;
  const caFile = ca === undefined ? {} : { caFile: resolve(ca) };
  const wish = { url, clientId, clientSecret, audience: audienceOf(url), ...caFile };
  const { profile, token } = await firstToken(local, wish);
  const file = credentialsFile(env.configHome);
  const profiles = { ...(await readProfiles(file)), [name]: { ...profile, token } };
  await writeProfiles(file, profiles, local.random);
  if (local.json)
    return terminal.print(JSON.stringify({ url, client_id: clientId, profile: name }));
  terminal.print(`Logged in to ${url} as ${printable(clientId)}; kept in ${file}.`);
  const option = name === defaultProfile ? '' : ` --profile ${name}`;
  terminal.note(`Next: leat streams list${option}`);
}

/**
 * The server is known by the host of the address, and where that is no domain of it (a local trial
 * reached as 127.0.0.1), by the relative audience of docs/http-api.md#audiences.
 */
async function firstToken(
  local: Run,
  wish: Profile,
): Promise<{ profile: Profile; token: KeptToken }> {
  const http = createHttp(wish.url, local, wish.caFile);
  const deps = { clock: local.clock, note: local.terminal.note };
  try {
    return { profile: wish, token: await requestToken(http, wish, deps) };
  } catch (error) {
    const unknown = error instanceof CommandFailed && error.message.startsWith('Service not found');
    if (!unknown) throw error;
    const profile = { ...wish, audience: '/api/v2/' };
    return { profile, token: await requestToken(http, profile, deps) };
  }
}

async function askId({ terminal }: Run): Promise<string> {
  const id = terminal.interactive ? (await terminal.ask('Client id: ')).trim() : '';
  if (id !== '') return id;
  throw usageError('Which client? Name it: leat login <url> --client-id <id>');
}

async function secretOf(local: Run, { clientSecretFile }: LoginOptions): Promise<string> {
  const { terminal, env } = local;
  const secret =
    clientSecretFile !== undefined
      ? await secretOption('--client-secret-file', clientSecretFile, terminal)
      : (env.clientSecret ??
        (terminal.interactive
          ? await terminal.askSecret('Client secret: ')
          : await terminal.readInput()));
  const trimmed = secret.trim();
  if (trimmed !== '') return trimmed;
  throw usageError(
    'The secret is empty: type it, pipe it into the standard input, or use --client-secret-file.',
  );
}

function profileName(name = defaultProfile): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) return name;
  throw usageError('--profile: a name has 1 to 64 letters, digits, dots, dashes or underscores.');
}

async function logout(
  { env, terminal, random, json }: Run,
  { all, profile = defaultProfile }: { all?: boolean; profile?: string },
): Promise<void> {
  const file = credentialsFile(env.configHome);
  const profiles = await readProfiles(file);
  const gone = Object.keys(profiles).filter((name) => all === true || name === profile);
  if (gone.length === 0) terminal.note('Not logged in; nothing to forget.');
  const rest = Object.entries(profiles).filter(([name]) => !gone.includes(name));
  if (gone.length > 0) await writeProfiles(file, Object.fromEntries(rest), random);
  if (json) terminal.print(JSON.stringify({ logged_out: gone }));
  else if (gone.length > 0) terminal.print(`Logged out (${gone.map(printable).join(', ')}).`);
}
