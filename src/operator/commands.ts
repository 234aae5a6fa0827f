import { resolve } from 'node:path';
import { createTenant, renewBootstrap } from '../auth/bootstrap.ts';
import type { Credentials } from '../auth/clients.ts';
import { accessTokenKeys, type KeyUse, webhookKeys } from '../auth/key-use.ts';
import { revokeKey, rotateKey } from '../auth/keys.ts';
import { type Config, dataFolderOf } from '../config.ts';
import { badPortOfDomain } from '../core/bad-port.ts';
import { formatTime } from '../core/date.ts';
import { StartRefused } from '../core/errors.ts';
import type { Tenant } from '../core/types.ts';
import { domain, tenantName } from '../core/value.ts';
import { credentialsFile, storedClientId, writeCredentials } from '../files/data-folder.ts';
import type { Store } from '../store/port/store.ts';
import { entryOfCommand } from './audit-log.ts';
import { backup } from './backup.ts';
import {
  type Args,
  type Call,
  type Command,
  type CommandDeps,
  optionOf,
  textOf,
} from './command.ts';
import { consoleLink, endSessions, listSessions } from './console.ts';
import { rotateSecrets } from './rotate-secrets.ts';
import { nodes, status } from './status.ts';
import { storeFindings } from './store-findings.ts';
import { noTenant, tenantNamed } from './tenant-named.ts';
import { unknownHostsWarning } from './host-findings.ts';
import { removeTenant } from '../upkeep/tenant-removal.ts';
import { countText } from './table.ts';

/** The operator's commands on the store, by name. */
const commands: Readonly<Record<string, Command>> = {
  nodes,
  status,
  backup,
  'doctor store': storeFindings,
  'tenants list': async ({ store }) => tenantLines(store),
  'tenants create': create,
  'tenants bootstrap': renew,
  'tenants delete': deleteTenant,
  'secrets rotate': rotateSecrets,
  'keys list': listKeys,
  'keys rotate': rotate,
  'keys revoke': revoke,
  console: consoleLink,
  'console sessions': listSessions,
  'console end': endSessions,
};

/** Returns the command of a name. */
export function commandOf(name: string): Command | undefined {
  return Object.hasOwn(commands, name) ? commands[name] : undefined;
}

async function create(deps: CommandDeps, args: Args): Promise<string> {
  const { store, random, clock } = deps;
  const names = {
    name: checked('name', tenantName, textOf(args, 'name')),
    domain: checked('domain', domain, textOf(args, 'domain')),
  };
  // The next start would take it for the first tenant and give it the configured names.
  if ((await store.tenants.list()).length === 0) throw new StartRefused(noTenant);
  const created = await createTenant(
    { store, random, now: clock.now(), entry: entryOfCommand(deps, 'tenants create') },
    names,
  );
  if ('refused' in created) throw new StartRefused(takenLine(created.refused, names));
  const problem = badPortOfDomain(names.domain);
  const badPort = problem === undefined ? '' : `\nWarning: ${problem}.`;
  const warning = unknownHostsWarning(deps, await store.tenants.list());
  return `Created ${names.name} at ${names.domain}. Its bootstrap client, shown once:\n${clientLines(created)}${badPort}${warning}`;
}

async function renew(deps: CommandDeps, args: Args): Promise<string> {
  const { store, random, clock, config } = deps;
  const tenant = await tenantNamed(store, textOf(args, 'name'));
  const entry = entryOfCommand(deps, 'tenants bootstrap');
  const authDeps = { store, random, now: clock.now(), entry };
  const folder = await folderOfCredentials(deps, tenant);
  const renewed = await renewBootstrap(authDeps, tenant.id, {
    configuredId: config.bootstrapClientId,
    deliverCredentials:
      folder === undefined
        ? undefined
        : async (management) => {
            const replaces = await storedClientId(folder);
            await writeCredentials(folder, { management, replaces }, random);
          },
  });
  const file = folder === undefined ? '' : fileLine(resolve(credentialsFile(folder)));
  return `${renewedLine(tenant)}\n${clientLines(renewed)}${file}${restartWarning(config)}`;
}

/** Returns the data folder when its file has a client of the tenant, whose secret stops working. */
async function folderOfCredentials(
  { store, config }: CommandDeps,
  tenant: Tenant,
): Promise<string | undefined> {
  if (config.store.engine !== 'sqlite') return undefined;
  const folder = dataFolderOf(config);
  const id = await storedClientId(folder);
  const client = id === undefined ? undefined : await store.clients.get(tenant.id, id);
  return client === undefined ? undefined : folder;
}

const renewedLine = ({ name }: Tenant): string =>
  `The secret of the former bootstrap client of ${name} has stopped working, also in stored logins. The new client, shown once:`;

const fileLine = (file: string): string =>
  `\n${file} has it, too: log in again with leat login <url> --credentials-file`;

async function listKeys({ store, clock }: CommandDeps, args: Args): Promise<string> {
  const tenant = await tenantNamed(store, optionOf(args, 'tenant'));
  const lines = async ({ part, signs }: KeyUse<unknown>): Promise<string[]> =>
    (await store[part].list(tenant.id, clock.now())).map(({ kid, signsFrom, expiresAt }) => {
      const until = expiresAt === undefined ? '' : `, published until ${formatTime(expiresAt)}`;
      return `${kid}  signs ${signs} from ${formatTime(signsFrom)}${until}`;
    });
  return [...(await lines(accessTokenKeys)), ...(await lines(webhookKeys))].join('\n');
}

async function rotate(deps: CommandDeps, args: Args): Promise<string> {
  const { store, clock } = deps;
  const tenant = await tenantNamed(store, optionOf(args, 'tenant'));
  const immediately = args['now'] === true;
  const use = args['webhooks'] === true ? webhookKeys : accessTokenKeys;
  const entry = entryOfCommand(deps, `keys rotate${use === webhookKeys ? ' --webhooks' : ''}`);
  const change = { now: clock.now(), immediately, entry, use };
  const { kid, atOnce } = await rotateKey(store, tenant.id, change);
  const from = atOnce ? 'now' : '10 minutes from now';
  const published = `Key ${kid} is published and signs ${use.signs} from ${from}.`;
  // Without a former one.
  if (atOnce && !immediately) return published;
  return use === webhookKeys
    ? `${published} The former key stays published for 7 days after that.`
    : `${published} Tokens of the former key stay valid.`;
}

async function revoke(deps: CommandDeps, args: Args): Promise<string> {
  const { store, clock } = deps;
  const tenant = await tenantNamed(store, optionOf(args, 'tenant'));
  const kid = textOf(args, 'kid');
  const entry = entryOfCommand(deps, 'keys revoke');
  for (const use of [accessTokenKeys, webhookKeys]) {
    const revoked = await revokeKey(store, tenant.id, kid, { now: clock.now(), entry, use });
    if (revoked === 'revoked') {
      return `Key ${kid} is gone; ${use.signs} signed with it are rejected from now on.`;
    }
  }
  throw new StartRefused(`No key is called "${kid}"; leat keys list shows them.`);
}

function checked(field: string, parse: typeof domain, text: string): string {
  const parsed = parse(text);
  if ('problem' in parsed) throw new StartRefused(`The ${field} "${text}" ${parsed.problem}.`);
  return parsed.value;
}

function takenLine(
  refused: 'name_taken' | 'domain_taken',
  names: { readonly name: string; readonly domain: string },
): string {
  return refused === 'name_taken'
    ? `A tenant is called "${names.name}" already; choose another name.`
    : `The domain "${names.domain}" is another tenant's; choose another one.`;
}

async function tenantLines({ tenants }: Store): Promise<string> {
  const line = ({ name, domain: at }: Tenant): string => `${name.padEnd(24)} ${at}`;
  const leaving = (await tenants.leaving()).map((tenant) => `${line(tenant)}  is being deleted`);
  return [...(await tenants.list()).map(line), ...leaving].join('\n');
}

/** Returns a warning where the next start would restore the configured secret. */
function restartWarning({ bootstrapClientId }: Config): string {
  if (bootstrapClientId === undefined) return '';
  return '\nRemove LEAT_BOOTSTRAP_CLIENT_ID and LEAT_BOOTSTRAP_CLIENT_SECRET, or the next start restores that secret.';
}

function clientLines({ clientId, clientSecret }: Credentials): string {
  return `  id      ${clientId}\n  secret  ${clientSecret}`;
}

/**
 * Stops the streams of a tenant and removes its rows. Requests do not find the tenant from the first
 * step on. An interrupted removal resumes when the command runs again, or at the next start.
 */
async function deleteTenant(deps: CommandDeps, args: Args, call: Call): Promise<string> {
  const { store, clock } = deps;
  const name = textOf(args, 'name');
  const tenants = await store.tenants.list();
  const found = tenants.find((tenant) => tenant.name === name);
  const leaving = (await store.tenants.leaving()).find((tenant) => tenant.name === name);
  const tenant = found ?? leaving;
  if (tenant === undefined) {
    throw new StartRefused(`No tenant is called "${name}": leat tenants list shows them.`);
  }
  if (found !== undefined && tenants.length === 1) {
    throw new StartRefused(
      `"${name}" is the only tenant, which the next start would create again: stop the server and remove the store instead.`,
    );
  }
  if (found !== undefined && found.id === tenants[0]?.id) {
    throw new StartRefused(
      `"${name}" is the first tenant, which LEAT_TENANT_NAME and LEAT_TENANT_DOMAIN name: only others can be deleted.`,
    );
  }
  if (args['dry'] === true) return '';
  if (found !== undefined) {
    // In the log of the first tenant: its own is removed.
    const entry = entryOfCommand(deps, 'tenants delete')(tenants[0]?.id ?? 0, [name]);
    await store.recording(entry).tenants.leave(found.id);
  }
  const removed = await removeTenant(
    { store, clock },
    tenant.id,
    (done) => call.progress({ step: `removing rows of ${name}`, done }),
    call.signal,
  );
  return `Deleted ${name}: ${countText(removed)} ${removed === 1 ? 'row was' : 'rows were'} removed.`;
}
