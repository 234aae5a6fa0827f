import { codeOf, StartRefused } from '../../../core/errors.ts';
import { postgresServers } from '../../../core/postgres-url.ts';
import { causeOf } from './errors.ts';
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
  const text = cause instanceof Error && cause.message !== '' ? cause.message : code;
  if (text === withoutTls) {
    return 'has no TLS, which sslmode in the URL asks for: turn ssl on in postgresql.conf, or take sslmode out where nobody else is on the network';
  }
  if (cause instanceof Error && 'path' in cause && 'syscall' in cause && cause.syscall === 'open') {
    return `cannot be opened: a file that its URL names (sslrootcert, sslcert, sslkey) cannot be read: ${code} ${String(cause.path)}`;
  }
  const known = reasons.get(code) ?? networkReasons.get(code) ?? tlsReasons.get(code);
  return known ?? `cannot be opened: ${text}`;
}

/** The text of node-postgres, which gives it no code. */
const withoutTls = 'The server does not support SSL connections';

/** By SQLSTATE (PostgreSQL manual, appendix A). */
const reasons: ReadonlyMap<string, string> = new Map([
  ['3D000', 'does not exist on that server: make it with createdb, or name another one'],
  ['28P01', 'refuses the password: check the user and the password in the URL'],
  [
    '28000',
    'refuses the user: check the URL and the pg_hba.conf of the server, which may ask for TLS (sslmode=verify-full in the URL)',
  ],
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

const unknownCa =
  'has a certificate of no CA that Leat trusts, which sslmode in the URL asks for: name the file of its CA by sslrootcert=<file> in the URL';

/** By the code of OpenSSL or Node; sslmode=require verifies the certificate as well. */
const tlsReasons: ReadonlyMap<string, string> = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', unknownCa],
  ['SELF_SIGNED_CERT_IN_CHAIN', unknownCa],
  ['UNABLE_TO_GET_ISSUER_CERT', unknownCa],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', unknownCa],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', unknownCa],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'has a certificate for another host, which sslmode in the URL does not allow: use a name of the certificate in the URL, or give the server one for this name',
  ],
  ['CERT_HAS_EXPIRED', 'has a certificate that has expired: renew it at the server'],
  [
    'CERT_NOT_YET_VALID',
    'has a certificate that is not valid yet: check the clock of this machine and the certificate of the server',
  ],
]);
