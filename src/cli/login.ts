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
import { CommandFailed, usageError } from './errors.ts';
import { type AccessToken, requestFirstToken } from './http/access-token.ts';
import {
  credentialsFile,
  type Profile,
  type Profiles,
  readProfiles,
  updateProfiles,
} from './http/credentials.ts';
import { createHttpClient } from './http/http-client.ts';
import { audienceOf, serverOrigin, warnOfPlainHttp } from './http/server-url.ts';
import { defaultProfile } from './http/session.ts';
import { leatCommand } from './leat-command.ts';
import { fileOption, secretOption } from './option.ts';
import type { Terminal } from './terminal/terminal.ts';

interface LoginOptions extends CommonOptions {
  readonly clientId?: string;
  readonly clientSecretFile?: string;
  readonly credentialsFile?: string;
}

/** `leat login` and `leat logout`. */
export function addLoginCommands(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('login <url>'))
    .description('log in to a server and store the credentials for the other commands')
    .option('--client-id <id>', 'client id (or LEAT_CLIENT_ID)')
    .option(
      '--client-secret-file <file>',
      'file with the client secret; without it a prompt, or the standard input',
    )
    .option(
      '--credentials-file <file>',
      'file with both, as a first start writes it: bootstrap.json in the data folder',
    )
    .addHelpText(
      'after',
      examples(
        'leat login http://localhost:8080',
        'leat login http://localhost:8080 --credentials-file data/bootstrap.json',
        'leat login https://leat.example.com --client-id operator --client-secret-file secret.txt',
        'pass show leat | leat login https://leat.example.com --client-id operator --profile live',
      ),
    )
    .action((url: string, options: LoginOptions) =>
      run(deps, options, (local) => login(local, url, options)),
    );
  withCommonOptions(program.command('logout'))
    .description('delete the stored credentials of a login')
    .option('--all', 'delete those of every login')
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
  const { clientId, clientSecret } = await credentialsOf(local, options);
  const ca = options.ca ?? env.caFile;
  const caFile = ca === undefined ? {} : { caFile: resolve(ca) };
  const entered = { url, clientId, clientSecret, audience: audienceOf(url), ...caFile };
  const { profile, token } = await firstToken(local, entered).catch((error: unknown) => {
    throw options.credentialsFile === undefined ? error : withFormerClient(error);
  });
  const file = credentialsFile(env.configHome);
  let former: Profile | undefined;
  const store = (present: Profiles): Profiles => {
    former = present[name];
    return { ...present, [name]: { ...profile, token } };
  };
  await updateProfiles(file, store, local);
  if (former !== undefined && former.url !== url) {
    terminal.note(`It replaces the login for ${former.url}: --profile <name> keeps several.`);
  }
  if (local.json)
    return terminal.print(JSON.stringify({ url, client_id: clientId, profile: name }));
  terminal.print(`Logged in to ${url} as ${printable(clientId)}; stored in ${file}.`);
  // The login has stored the authority.
  const next = leatCommand({ profile: options.profile })`streams list`;
  terminal.note(`Next: ${next}`);
}

/** Names the usual cause of a refused file: the operator has renewed the client. */
function withFormerClient(error: unknown): unknown {
  if (!(error instanceof CommandFailed) || error.details.statusCode !== 401) return error;
  // An operator's command: it has no login.
  const command = leatCommand({})`tenants bootstrap <tenant>`;
  const nextStep = `The file may be of a former client: ${command} on the machine of the server prints a new one.`;
  const { exitCode, message, details, cause } = error;
  return new CommandFailed(exitCode, message, { ...details, cause, nextStep });
}

/** Requests a token, for the audience of the address or the relative one. */
async function firstToken(
  local: Run,
  entered: Profile,
): Promise<{ profile: Profile; token: AccessToken }> {
  const http = createHttpClient(entered.url, local, entered.caFile);
  const { clock, terminal, signal, leat } = local;
  const deps = { clock, note: terminal.note, signal, leat, login: leat`login ${entered.url}` };
  const { audience, token } = await requestFirstToken(http, entered, deps);
  return { profile: { ...entered, audience }, token };
}

async function credentialsOf(local: Run, options: LoginOptions): Promise<ClientCredentials> {
  const { clientId, clientSecretFile, credentialsFile: file } = options;
  if (file === undefined) {
    const id = clientId ?? local.env.clientId ?? (await askId(local));
    return { clientId: id, clientSecret: await secretOf(local, options) };
  }
  if ((clientId ?? clientSecretFile) === undefined) return credentialsOption(file, local.terminal);
  throw usageError(
    'Choose one of --credentials-file and --client-id with --client-secret-file: the file has both.',
  );
}

async function askId({ terminal, leat }: Run): Promise<string> {
  const id = terminal.interactive ? (await terminal.ask('Client id: ')).trim() : '';
  if (id !== '') return id;
  throw usageError(`No client id: ${leat`login <url> --client-id <id>`}`);
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
  throw usageError(
    '--profile: use 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or a digit.',
  );
}

async function logout(
  local: Run,
  { all, profile = defaultProfile }: { all?: boolean; profile?: string },
): Promise<void> {
  const { env, terminal, json } = local;
  const isNamed = (name: string): boolean => all === true || name === profile;
  const file = credentialsFile(env.configHome);
  const removed = Object.keys(await readProfiles(file)).filter(isNamed);
  if (removed.length === 0) terminal.note('Not logged in; nothing was changed.');
  else await updateProfiles(file, (present) => without(present, isNamed), local);
  if (json) terminal.print(JSON.stringify({ logged_out: removed }));
  else if (removed.length > 0) terminal.print(`Logged out (${removed.map(printable).join(', ')}).`);
}

function without(profiles: Profiles, isRemoved: (name: string) => boolean): Profiles {
  return Object.fromEntries(Object.entries(profiles).filter(([name]) => !isRemoved(name)));
}

/** A client and its secret. */
interface ClientCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

const credentialsFlag = '--credentials-file';

/**
 * Reads a client and its secret from a file like the `bootstrap.json` of a first start. Throws
 * {@link CommandFailed} when the file cannot be read, and a usage error when it holds something else.
 */
async function credentialsOption(file: string, terminal: Terminal): Promise<ClientCredentials> {
  const credentials = credentialsIn(await fileOption(credentialsFlag, file, terminal));
  if (credentials !== undefined) return credentials;
  throw usageError(
    `${credentialsFlag}: ${printable(file)} has no client_id and client_secret; a first start writes such a file: bootstrap.json in the data folder.`,
  );
}

function credentialsIn(text: string): ClientCredentials | undefined {
  try {
    const fields = Object(JSON.parse(text)) as Record<string, unknown>;
    const { client_id: clientId, client_secret: clientSecret } = fields;
    if (typeof clientId !== 'string' || typeof clientSecret !== 'string') return undefined;
    return clientId === '' || clientSecret === '' ? undefined : { clientId, clientSecret };
  } catch {
    return undefined;
  }
}
