import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import { databaseConnection } from '../core/users.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { confirmed } from './confirm.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { dataOf } from './events.ts';
import { type ApiClient, pathOf } from './http/api-client.ts';
import { allUsers } from './http/pages.ts';
import { indented, writeJson } from './json.ts';
import { isObject, secretOption, wholeNumberOption } from './option.ts';
import { type Column, shortTime, tableLines } from './terminal/table.ts';
import type { Terminal } from './terminal/terminal.ts';

/** The fields of a user that are shown (docs/http-api.md#users). */
interface UserShown {
  readonly user_id: string;
  readonly email?: string;
  readonly name?: string;
  readonly blocked?: boolean;
  readonly created_at?: string;
}

interface UserOptions extends CommonOptions {
  readonly email?: string;
  readonly passwordFile?: string;
  readonly connection?: string;
  readonly name?: string;
  readonly username?: string;
  readonly data?: string;
}

/** `leat users …` */
export function addUserCommands(users: Command, deps: CliDeps): void {
  withCommonOptions(users.command('list'))
    .description('list the users')
    .option('--email <address>', 'only users with this e-mail')
    .option('--limit <count>', 'maximum number of users', wholeNumberOption(1, 10_000_000))
    .addHelpText('after', examples('leat users list', 'leat users list --email ada@example.com'))
    .action((options: CommonOptions & { email?: string; limit?: number }) =>
      runWithApi(deps, options, (run) => listUsers(run, options)),
    );
  withCommonOptions(users.command('show <user>'))
    .description('show a user, by id or e-mail')
    .addHelpText('after', examples('leat users show ada@example.com'))
    .action((user: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await userIdOf(run, user);
        showUser(run, await run.api.send({ method: 'GET', path: pathOf`/users/${id}` }));
      }),
    );
  addWriting(users, deps);
}

function addWriting(users: Command, deps: CliDeps): void {
  withUserOptions(withCommonOptions(users.command('create')))
    .description('create a user; prompts for the password without --password-file')
    .addHelpText(
      'after',
      examples(
        'leat users create --email ada@example.com --password-file password.txt',
        `leat users create --email ada@example.com --data '{"app_metadata": {"plan": "pro"}}'`,
      ),
    )
    .action((options: UserOptions) => runWithApi(deps, options, (run) => createUser(run, options)));
  withUserOptions(withCommonOptions(users.command('update <user>')))
    .description('change a user, by id or e-mail')
    .addHelpText(
      'after',
      examples(
        'leat users update ada@example.com --name "Ada Lovelace"',
        `leat users update ada@example.com --data '{"blocked": true}'`,
      ),
    )
    .action((user: string, options: UserOptions) =>
      runWithApi(deps, options, (run) => updateUser(run, user, options)),
    );
  withCommonOptions(users.command('delete <user>'))
    .description('delete a user, by id or e-mail')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', examples('leat users delete ada@example.com'))
    .action((user: string, options: CommonOptions & { yes?: boolean }) =>
      runWithApi(deps, options, async (run) => {
        if (!(await confirmed(run, `Delete the user ${printable(user)}?`, options.yes))) return;
        const id = await userIdOf(run, user);
        await run.api.send({ method: 'DELETE', path: pathOf`/users/${id}` });
        if (!run.json) run.terminal.print(`Deleted ${printable(id)}.`);
      }),
    );
}

function withUserOptions(command: Command): Command {
  return command
    .option('--email <address>', 'e-mail of the user')
    .option('--password-file <file>', 'file with the password (- for stdin)')
    .option('--connection <name>', `connection of the user (default: ${databaseConnection})`)
    .option('--name <name>', 'full name of the user')
    .option('--username <name>', 'user name')
    .option('--data <json>', 'further fields: a JSON object, @file, or - for stdin');
}

async function listUsers(
  { api, terminal, json }: ApiRun,
  { email, limit }: { readonly email?: string; readonly limit?: number },
): Promise<void> {
  const users =
    email === undefined
      ? await allUsers<UserShown>(api, limit ?? Infinity)
      : (await usersOf(api, email)).slice(0, limit);
  if (json) return terminal.print(writeJson(users));
  for (const line of tableLines(columns, users, terminal)) terminal.print(line);
  if (users.length === 0) terminal.note('No users.');
}

async function createUser(run: ApiRun, options: UserOptions): Promise<void> {
  const body = await fieldsOf(options, run.terminal);
  const isDatabase = body['connection'] === undefined || body['connection'] === databaseConnection;
  if (body['email'] === undefined) throw usageError('No e-mail: add --email <address>.');
  if (body['password'] === undefined && isDatabase) {
    if (!run.terminal.interactive) throw usageError('No password: add --password-file <file>.');
    body['password'] = await run.terminal.askSecret('Password of the user: ');
  }
  const user = { connection: databaseConnection, ...body };
  showUser(run, await run.api.send({ method: 'POST', path: '/users', body: user }));
}

async function updateUser(run: ApiRun, user: string, options: UserOptions): Promise<void> {
  const body = await fieldsOf(options, run.terminal);
  if (Object.keys(body).length === 0)
    throw usageError(
      'Nothing to change: add --email, --password-file, --connection, --name, --username or --data.',
    );
  const id = await userIdOf(run, user);
  showUser(run, await run.api.send({ method: 'PATCH', path: pathOf`/users/${id}`, body }));
}

async function fieldsOf(
  options: UserOptions,
  terminal: Terminal,
): Promise<Record<string, unknown>> {
  const { email, passwordFile, connection, name, username, data } = options;
  const further = data === undefined ? {} : await dataOf(data, terminal);
  if (!isObject(further)) throw usageError('--data is not a JSON object.');
  return {
    ...further,
    ...(email === undefined ? {} : { email }),
    ...(connection === undefined ? {} : { connection }),
    ...(name === undefined ? {} : { name }),
    ...(username === undefined ? {} : { username }),
    ...(passwordFile === undefined
      ? {}
      : { password: await secretOption('--password-file', passwordFile, terminal) }),
  };
}

/** Returns the id of a user, looked up by e-mail if necessary; ids contain a bar, e-mails do not. */
async function userIdOf({ api, leat }: ApiRun, user: string): Promise<string> {
  if (user.includes('|') || !user.includes('@')) return user;
  const [first, second] = await usersOf(api, user);
  if (first !== undefined && second === undefined) return first.user_id;
  const exitCode = first === undefined ? exitCodes.notFound : exitCodes.conflict;
  const problem =
    first === undefined ? 'No user has the e-mail' : 'More than one user has the e-mail';
  throw new CommandFailed(
    exitCode,
    `${problem} ${printable(user)}: ${leat`users list`} shows their ids.`,
  );
}

async function usersOf(api: ApiClient, email: string): Promise<UserShown[]> {
  const response = await api.send({ method: 'GET', path: '/users-by-email', query: { email } });
  return Array.isArray(response.body) ? (response.body as UserShown[]) : [];
}

function showUser(run: ApiRun, response: { readonly text: string; readonly body: unknown }): void {
  show(run, response.text, () => indented(response.body).split('\n'));
}

const columns: readonly Column<UserShown>[] = [
  { header: 'ID', text: ({ user_id: id }) => id },
  { header: 'E-MAIL', text: ({ email }) => email ?? '', cuttable: true },
  { header: 'NAME', text: ({ name }) => name ?? '', cuttable: true },
  {
    header: 'BLOCKED',
    text: ({ blocked }) => (blocked === true ? 'yes' : ''),
    format: () => 'red',
  },
  { header: 'CREATED', text: ({ created_at: time }) => shortTime(time ?? '') },
];
