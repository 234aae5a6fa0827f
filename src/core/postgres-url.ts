/** The servers that a PostgreSQL URL names, and which of them may be used. */
export interface PostgresServers {
  /** One or more, in the order of the URL. */
  readonly servers: readonly PostgresServer[];
  /** `any` takes every server that lets the user in; the others take one that accepts writes. */
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
 * each with its own port, and the parameter, as libpq has them (PostgreSQL manual, section 34.1.1).
 * Without the parameter one host may be any server, and of several one that accepts writes is used.
 *
 * `problem` completes a sentence that begins with the text. The rest of the URL is not checked here.
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

/** Path and query without the parameter, which no server knows, and its last value. */
function withoutSession(rest: string): { path: string; wanted: string | undefined } {
  const start = rest.indexOf('?');
  if (start < 0) return { path: rest, wanted: undefined };
  const isWanted = (part: string): boolean => part.startsWith(`${parameter}=`);
  const query = rest.slice(start + 1).split('&');
  const kept = query.filter((part) => !isWanted(part)).join('&');
  const wanted = query.findLast(isWanted)?.slice(parameter.length + 1);
  return { path: `${rest.slice(0, start)}${kept === '' ? '' : `?${kept}`}`, wanted };
}

/** A name, an IPv4 address or an IPv6 address in brackets, each with a port from 1 to 65535. */
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
