import { codeOf, StartRefused } from '../../core/errors.ts';
import { postgresServers } from '../../core/postgres-url.ts';
import { causeOf } from './database.ts';
import { NoServer } from './hosts.ts';

/** Returns the URL without its password and its parameters. */
export function nameOf(url: string): string {
  const parsed = postgresServers(url);
  const servers = 'problem' in parsed ? [] : parsed.servers;
  const hosts = servers.map((server) => new URL(server.url).host).join(',');
  return `postgres://${hosts}${new URL(servers[0]?.url ?? url).pathname}`;
}

/** Returns why the database `name` cannot be used, as one line with the remedy. */
export function refusalOf(name: string, error: unknown): StartRefused {
  if (error instanceof StartRefused) return error;
  const cause = causeOf(error);
  return new StartRefused(`LEAT_STORE: ${name} ${reasonOf(cause)}`, { cause: error });
}

function reasonOf(cause: unknown): string {
  if (cause instanceof NoServer) {
    const problems = cause.problems.map(({ name, error }) => `${name} ${reasonOf(error)}`);
    return `has no server that can be used: ${problems.join('; ')}`;
  }
  const code = codeOf(cause) ?? '';
  const known = reasons.get(code) ?? networkReasons.get(code);
  const text =
    cause instanceof Error && cause.message !== '' ? cause.message : (codeOf(cause) ?? '');
  return known ?? `cannot be opened: ${text}`;
}

/** By SQLSTATE (PostgreSQL manual, appendix A). */
const reasons: ReadonlyMap<string, string> = new Map([
  ['3D000', 'does not exist on that server: make it with createdb, or name another one'],
  ['28P01', 'refuses the password: check the user and the password in the URL'],
  ['28000', 'refuses the user: check the URL and the pg_hba.conf of the server'],
  ['42501', 'refuses what Leat needs: the user must own the database or may create in its schema'],
  ['53300', 'has no connection left: raise max_connections or use a pooler'],
  ['25006', 'can only be read: name the primary server'],
  ['57P03', 'is starting up or shutting down: try again in a moment'],
]);

/** By the code of a system call. */
const networkReasons: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'cannot be reached: nothing listens there, check host and port'],
  ['ENOTFOUND', 'cannot be reached: the host name is unknown'],
  ['EAI_AGAIN', 'cannot be reached: the host name cannot be looked up now'],
  ['ETIMEDOUT', 'cannot be reached: no response, check host, port and firewall'],
]);
