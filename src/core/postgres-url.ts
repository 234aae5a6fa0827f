/** The servers of a PostgreSQL URL, and which of them may be used. */
export interface PostgresServers {
  /** One or more, in the order of the URL. */
  readonly servers: readonly PostgresServer[];
  /** `any`: every server that accepts the user; `read-write`, `primary`: one that accepts writes. */
  readonly session: 'any' | 'read-write' | 'primary';
}

export interface PostgresServer {
  /** `host`, `host:port` or `[address]:port`, as in the URL. */
  readonly name: string;
  /** A URL of this server alone, without `target_session_attrs`. */
  readonly url: string;
}

const sessions = ['read-write', 'primary', 'any'] as const;
const parameter = 'target_session_attrs';

/**
 * Parses `postgres://user:password@a,b:5433,[::1]/db?target_session_attrs=read-write`: several hosts,
 * each with its own port, and the parameter, as in libpq (PostgreSQL manual, section 34.1.1). Without
 * the parameter a single host may be any server, and of several hosts one must accept writes.
 *
 * `problem` completes a sentence that begins with the text. Does not check the rest of the URL.
 */
export function postgresServers(text: string): PostgresServers | { readonly problem: string } {
  const parts =
    /^(?<scheme>postgres(?:ql)?:\/\/)(?<user>[^/?#]*@)?(?<hosts>[^/?#]*)(?<rest>.*)$/s.exec(
      text,
    )?.groups;
  if (parts === undefined) return { problem: 'is not a postgres:// URL' };
  const { scheme = '', user = '', hosts = '', rest = '' } = parts;
  const { path, wanted } = withoutSession(rest);
  const names = hosts.split(',');
  if (names.length > 1) {
    const wrong = names.find((name) => !isHost(name));
    if (wrong !== undefined) return { problem: hostProblem(wrong) };
  }
  const session = wanted ?? (names.length > 1 ? 'read-write' : 'any');
  if (!isSession(session)) {
    return { problem: `has a ${parameter} other than ${sessions.join(', ')}` };
  }
  const servers = names.map((name) => ({ name, url: `${scheme}${user}${name}${path}` }));
  return { servers, session };
}

function isSession(text: string): text is PostgresServers['session'] {
  return (sessions as readonly string[]).includes(text);
}

/** Returns path and query without the parameter, which servers do not know, and its last value. */
function withoutSession(rest: string): { path: string; wanted: string | undefined } {
  const start = rest.indexOf('?');
  if (start < 0) return { path: rest, wanted: undefined };
  const isParameter = (part: string): boolean => part.startsWith(`${parameter}=`);
  const query = rest.slice(start + 1).split('&');
  const others = query.filter((part) => !isParameter(part)).join('&');
  const wanted = query.findLast(isParameter)?.slice(parameter.length + 1);
  return { path: `${rest.slice(0, start)}${others === '' ? '' : `?${others}`}`, wanted };
}

/** Accepts a name, an IPv4 address or an IPv6 address in brackets, with or without a port. */
function isHost(name: string): boolean {
  const { host, port } =
    /^(?<host>\[[^\]]*\]|[^:[\]@]+)(?::(?<port>[0-9]{1,5}))?$/.exec(name)?.groups ?? {};
  if (host === undefined || URL.parse(`postgres://${name}/`) === null) return false;
  return port === undefined || (Number(port) >= 1 && Number(port) <= 65_535);
}

function hostProblem(name: string): string {
  if (name === '') return 'has an empty host between its commas';
  return 'has a host that is not name, name:port or [IPv6 address]:port, with a port from 1 to 65535';
}
