import { createHash } from 'node:crypto';
import { issuerOf } from '../auth/issuer.ts';
import { type Config, usesPlainHttp } from '../config.ts';
import type { Clock, Millis, RandomBytes } from '../core/clock.ts';
import {
  consoleLimits,
  type ConsoleRole,
  consoleRoles,
  type ConsoleSession,
} from '../core/console-session.ts';
import { StartRefused } from '../core/errors.ts';
import { printable } from '../core/setting.ts';
import type { Tenant } from '../core/types.ts';
import { minuteMs } from '../core/units.ts';
import type { Store } from '../store/port/store.ts';
import { entryOfCommand } from './audit-log.ts';
import { type Args, type CommandDeps, optionOf, textOf } from './command.ts';
import { type Column, durationText, tableOf } from './table.ts';
import { tenantNamed } from './tenant-named.ts';

/** Returns the address of the console of a tenant. */
export function consoleUrl(config: Config, { domain }: Pick<Tenant, 'domain'>): string {
  return `${issuerOf(domain, usesPlainHttp(config, domain))}console/`;
}

/**
 * Adds a one-time code and returns the link that has it. Whoever opens the link signs in, so it is for
 * the screen of the operator alone: it never goes into a log. Throws `StartRefused` when the tenant is
 * being deleted.
 *
 * @param command the command that does it, for the audit log
 */
export async function addConsoleLink(
  deps: {
    readonly store: Pick<Store, 'recording'>;
    readonly config: Config;
    readonly clock: Pick<Clock, 'now'>;
    readonly random: RandomBytes;
  },
  tenant: Tenant,
  { role, command }: { readonly role: ConsoleRole; readonly command: string },
): Promise<string> {
  const { store, config, random } = deps;
  const code = random(codeBytes);
  const entry = entryOfCommand(deps, command)(tenant.id, []);
  const isAdded = await store
    .recording({ ...entry, details: { ...entry.details, role } })
    .consoleSessions.addCode({
      tenant: tenant.id,
      codeHash: createHash('sha256').update(code).digest(),
      role,
    });
  if (!isAdded) throw new StartRefused(`The tenant "${tenant.name}" is being deleted.`);
  // After `#`: a browser sends that to no server, and no proxy logs it.
  return `${consoleUrl(config, tenant)}#code=${Buffer.from(code).toString('base64url')}`;
}

const codeBytes = 32;

/** `leat console` */
export async function consoleLink(deps: CommandDeps, args: Args): Promise<string> {
  const tenant = await tenantNamed(deps.store, optionOf(args, 'tenant'));
  const role = roleOf(optionOf(args, 'role') ?? 'operator');
  const link = await addConsoleLink(deps, tenant, { role, command: 'console' });
  return `${link}\nThe link signs in to the console once, within ${codeMinutes} minutes, with the role ${role}.`;
}

/** How long a link is valid. */
export const codeMinutes = consoleLimits.codeMs / minuteMs;

function roleOf(text: string): ConsoleRole {
  const role = consoleRoles.find((known) => known === text);
  if (role !== undefined) return role;
  throw new StartRefused(
    `No role is called "${printable(text)}"; there are ${consoleRoles.join(', ')}.`,
  );
}

/** `leat console sessions` */
export async function listSessions({ store }: CommandDeps, args: Args): Promise<string> {
  const tenant = await tenantNamed(store, optionOf(args, 'tenant'));
  const sessions = await store.consoleSessions.list(tenant.id);
  if (sessions.length === 0) return `No session of ${tenant.name} is open.`;
  return tableOf(columnsAt(store.time.now()), sessions).join('\n');
}

function columnsAt(now: Millis): Column<ConsoleSession>[] {
  const right = 'right' as const;
  const ago = (at: Millis): string => `${durationText(now - at)} ago`;
  return [
    { header: 'ID', text: ({ id }) => id },
    { header: 'USER', text: ({ user }) => printable(user) },
    { header: 'ROLE', text: ({ role }) => role },
    { header: 'SINCE', align: right, text: ({ createdAt }) => ago(createdAt) },
    { header: 'LAST USE', align: right, text: ({ usedAt }) => ago(usedAt) },
    { header: 'ENDS', align: right, text: ({ endsAt }) => `in ${durationText(endsAt - now)}` },
  ];
}

/** `leat console end` */
export async function endSessions(deps: CommandDeps, args: Args): Promise<string> {
  const { store } = deps;
  const tenant = await tenantNamed(store, optionOf(args, 'tenant'));
  if (args['all'] === true) {
    const entry = entryOfCommand(deps, 'console end --all')(tenant.id, []);
    const ended = await store.recording(entry).consoleSessions.endMany(tenant.id, 'all');
    return `Ended ${ended} ${ended === 1 ? 'session' : 'sessions'} of ${tenant.name}.`;
  }
  const id = textOf(args, 'id');
  const entry = entryOfCommand(deps, 'console end')(tenant.id, [id]);
  if ((await store.recording(entry).consoleSessions.endMany(tenant.id, { id })) === 1) {
    return `Ended session ${id}.`;
  }
  throw new StartRefused(
    `${tenant.name} has no open session "${printable(id)}"; leat console sessions --tenant ${tenant.name} shows them.`,
  );
}
