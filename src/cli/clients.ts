import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
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
import { type ApiClient, pathOf } from './http/api-client.ts';
import { allPages, numberedPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import { listOption } from './option.ts';
import { type Audience, grantAudience } from './scopes.ts';
import { type Column, pairLines, tableLines } from './terminal/table.ts';

/** The fields of a client that are shown (docs/http-api.md#clients). */
interface ClientShown {
  readonly client_id: string;
  readonly name?: string;
  readonly global?: boolean;
  readonly issuer?: string;
  /** Only in the response that created it. */
  readonly client_secret?: string;
}

interface GrantShown {
  readonly id: string;
  readonly audience: string;
  readonly scope: readonly string[];
}

interface GrantOptions extends CommonOptions {
  readonly scope?: readonly string[];
  readonly audience?: string;
}

/** `leat clients …` */
export function addClientCommands(clients: Command, deps: CliDeps): void {
  withCommonOptions(clients.command('list'))
    .description('list the clients')
    .addHelpText('after', examples('leat clients list'))
    .action((options: CommonOptions) => runWithApi(deps, options, listClients));
  withCommonOptions(clients.command('show <client>'))
    .description('show a client and its grants, by id or name')
    .addHelpText('after', examples('leat clients show operator'))
    .action((client: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await clientIdOf(run, client);
        const response = await run.api.send({ method: 'GET', path: pathOf`/clients/${id}` });
        const grants = run.json ? [] : await grantsOf(run.api, id);
        showClient(run, response, grants);
      }),
    );
  addCreating(clients, deps);
  addUpdating(clients, deps);
}

function addCreating(clients: Command, deps: CliDeps): void {
  withCommonOptions(clients.command('create'))
    .description('create a client and show its secret once')
    .requiredOption('--name <name>', 'name of the client')
    .option('--global', 'let it use the management API; a scope of that API implies it')
    .option('--scope <scopes>', 'scopes to grant, separated by commas', listOption)
    .option('--audience <audience>', 'API of the scopes; default: the management API')
    .addHelpText(
      'after',
      examples('leat clients create --name reporter --scope read:event_streams,read:events'),
    )
    .action((options: GrantOptions & { name: string; global?: boolean }) =>
      runWithApi(deps, options, async (run) => {
        const { name, scope } = options;
        // First, so that a mistyped scope leaves no client without scopes.
        const audience = scope && (await grantAudience(run.api, options.audience, scope));
        const global = options.global ?? audience?.isManagement;
        const body = { name, global: global === true ? true : undefined };
        const response = await run.api.send({ method: 'POST', path: '/clients', body });
        // Shown first: the grant may fail, and the secret is never shown again.
        showClient(run, response, []);
        const { client_id: id } = response.body as ClientShown;
        if (scope !== undefined && audience !== undefined)
          await grant({ ...run, json: false }, id, { scope, audience }, run.terminal.note);
      }),
    );
  withCommonOptions(clients.command('grant <client>'))
    .description(
      'grant more scopes to a client, by id or name; those of the management API let it use that',
    )
    .requiredOption('--scope <scopes>', 'scopes, separated by commas', listOption)
    .option('--audience <audience>', 'API of the scopes; default: the management API')
    .addHelpText('after', examples('leat clients grant reporter --scope read:event_deliveries'))
    .action((client: string, options: GrantOptions & { scope: readonly string[] }) =>
      runWithApi(deps, options, async (run) => {
        const { scope } = options;
        const audience = await grantAudience(run.api, options.audience, scope);
        const found = await findClient(run, client);
        await grant(run, found?.client_id ?? client, { scope, audience }, run.terminal.print);
        if (audience.isManagement && found?.global === false) await makeGlobal(run, found);
      }),
    );
  withCommonOptions(clients.command('rotate-secret <client>'))
    .description(
      'create a new secret of a client, by id or name, and show it once; the old one stops working at once',
    )
    .addHelpText('after', examples('leat clients rotate-secret reporter'))
    .action((client: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const path = pathOf`/clients/${await clientIdOf(run, client)}/rotate-secret`;
        showClient(run, await run.api.send({ method: 'POST', path }), []);
      }),
    );
}

function addUpdating(clients: Command, deps: CliDeps): void {
  withCommonOptions(clients.command('update <client>'))
    .description('change a client, by id or name')
    .option('--name <name>', 'new name')
    .option('--global', 'let it use the management API')
    .option('--no-global', 'no longer let it use the management API')
    .addHelpText('after', examples('leat clients update reporter --global'))
    .action((client: string, options: CommonOptions & { name?: string; global?: boolean }) =>
      runWithApi(deps, options, async (run) => {
        const body = { name: options.name, global: options.global };
        if ((body.name ?? body.global) === undefined)
          throw usageError('Nothing to change: add --name or --global.');
        const path = pathOf`/clients/${await clientIdOf(run, client)}`;
        showClient(run, await run.api.send({ method: 'PATCH', path, body }), []);
      }),
    );
  withCommonOptions(clients.command('delete <client>'))
    .description('delete a client, by id or name; its tokens stop working')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', examples('leat clients delete reporter'))
    .action((client: string, options: CommonOptions & { yes?: boolean }) =>
      runWithApi(deps, options, async (run) => {
        const id = await clientIdOf(run, client);
        const named = id === client ? id : `${client} (${id})`;
        if (!(await confirmed(run, `Delete the client ${printable(named)}?`, options.yes))) return;
        await run.api.send({ method: 'DELETE', path: pathOf`/clients/${id}` });
        if (!run.json) run.terminal.print(`Deleted ${printable(id)}.`);
      }),
    );
}

async function listClients({ api, terminal, json }: ApiRun): Promise<void> {
  const clients = await numberedPages<ClientShown>(api, '/clients');
  if (json) return terminal.print(writeJson(clients));
  for (const line of tableLines(columns, clients, terminal)) terminal.print(line);
}

/** Returns the id of a client, looked up by name if necessary. */
async function clientIdOf(run: ApiRun, word: string): Promise<string> {
  // Such an id needs no list, and deleting a client twice succeeds.
  if (/^[0-9a-f]{32}$/.test(word)) return word;
  return (await findClient(run, word))?.client_id ?? word;
}

/**
 * Returns a client by id or name, `undefined` for a caller that may not list clients. Throws
 * {@link CommandFailed} when there is none, and when several have the name.
 */
async function findClient({ api, leat }: ApiRun, word: string): Promise<ClientShown | undefined> {
  const clients = await numberedPages<ClientShown>(api, '/clients').catch((error: unknown) => {
    if (error instanceof CommandFailed && error.details.statusCode === 403) return undefined;
    throw error;
  });
  if (clients === undefined) return undefined;
  const byId = clients.filter(({ client_id: id }) => id === word);
  const [found, other] = byId.length > 0 ? byId : clients.filter(({ name }) => name === word);
  if (found !== undefined && other === undefined) return found;
  const exitCode = found === undefined ? exitCodes.notFound : exitCodes.conflict;
  const problem =
    found === undefined ? 'No client has the id or the name' : 'More than one client has the name';
  throw new CommandFailed(
    exitCode,
    `${problem} "${printable(word)}": ${leat`clients list`} shows their ids.`,
  );
}

async function makeGlobal({ api, json, terminal }: ApiRun, client: ClientShown): Promise<void> {
  const path = pathOf`/clients/${client.client_id}`;
  await api.send({ method: 'PATCH', path, body: { global: true } });
  if (!json) terminal.print('It may use the management API from now on (--global).');
}

async function grant(
  { api, json, terminal }: ApiRun,
  client: string,
  {
    scope,
    audience: { identifier: wanted },
  }: { readonly scope: readonly string[]; readonly audience: Audience },
  output: (text: string) => void,
): Promise<void> {
  const present = (await grantsOf(api, client)).find((each) => each.audience === wanted);
  const scopes = [...new Set([...(present?.scope ?? []), ...scope])];
  const response =
    present === undefined
      ? await api.send({
          method: 'POST',
          path: '/client-grants',
          body: { client_id: client, audience: wanted, scope: scopes },
        })
      : await api.send({
          method: 'PATCH',
          path: pathOf`/client-grants/${present.id}`,
          body: { scope: scopes },
        });
  if (json) return show({ terminal, json }, response.text, () => []);
  output(printable(`Granted for ${wanted}: ${scopes.join(' ')}`));
  output('Tokens have it from the next login on.');
}

function grantsOf(api: ApiClient, client: string): Promise<GrantShown[]> {
  return allPages(api, '/client-grants', 'client_grants', { query: { client_id: client } });
}

function showClient(
  run: ApiRun,
  response: { readonly text: string; readonly body: unknown },
  grants: readonly GrantShown[],
): void {
  show(run, response.text, () => {
    const client = response.body as ClientShown;
    const granted = grants.map(
      ({ audience, scope }) =>
        ['Granted', `${audience}: ${scope.join(' ') || 'no scope'}`] as const,
    );
    return pairLines(
      [
        ['Id', client.client_id],
        ['Name', client.name],
        ['Global', client.global === true ? 'yes' : 'no'],
        ['Issuer', client.issuer],
        ['Secret', client.client_secret],
        ...granted,
      ],
      run.terminal.paint,
    );
  });
}

const columns: readonly Column<ClientShown>[] = [
  { header: 'ID', text: ({ client_id: id }) => id },
  { header: 'NAME', text: ({ name }) => name ?? '', cuttable: true },
  { header: 'GLOBAL', text: ({ global }) => (global === true ? 'yes' : '') },
  { header: 'ISSUER', text: ({ issuer }) => issuer ?? '', cuttable: true },
];
