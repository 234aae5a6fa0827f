import { createSocket } from 'node:dgram';
import { Resolver, type LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { isIPv4, type LookupFunction } from 'node:net';

/** A name server on loopback that speaks real DNS over UDP (RFC 1035), and asks for it. */

/** Addresses of both families (none: the name exists without any), or a refusal; or no answer. */
export type DnsAnswer = readonly string[] | 'no such name' | 'failure' | 'silence';

/** What a name has. `asked` counts the questions for this name and family, 1-indexed. */
export type Zone = (name: string, asked: number) => DnsAnswer;

export interface DnsServer {
  /** As `dns.lookup`, through a real resolver that asks this server alone. */
  readonly lookup: LookupFunction;
  /** Questions so far, `<name> A` or `<name> AAAA`. */
  readonly questions: readonly string[];
  close(): Promise<void>;
}

export async function startDns(zone: Zone): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const questions: string[] = [];
  socket.on('message', (query, from) => {
    const question = readQuestion(query);
    const key = `${question.name} ${question.family === 4 ? 'A' : 'AAAA'}`;
    questions.push(key);
    const asked = questions.filter((before) => before === key).length;
    const answer = zone(question.name, asked);
    if (answer === 'silence') return;
    socket.send(encode(query, question, answer), from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const resolver = new Resolver({ timeout: 1000, tries: 1 });
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  return {
    lookup: lookupBy(resolver),
    questions,
    close: async () => {
      resolver.cancel();
      socket.close();
      await once(socket, 'close');
    },
  };
}

/** Asks for both families and answers what was found, IPv4 first. */
export function lookupBy(resolver: Resolver): LookupFunction {
  return (hostname, options, callback) => {
    const found = new Map<4 | 6, LookupAddress[]>();
    let failure: NodeJS.ErrnoException | null = null;
    const ended = (family: 4 | 6, error: NodeJS.ErrnoException | null, list: string[]): void => {
      failure ??= error;
      found.set(
        family,
        (error === null ? list : []).map((address) => ({ address, family })),
      );
      if (found.size < 2) return;
      const all = [...(found.get(4) ?? []), ...(found.get(6) ?? [])];
      const [first] = all;
      if (first === undefined) callback(failure ?? new Error('no address'), []);
      else if (options.all === true) callback(null, all);
      else callback(null, first.address, first.family);
    };
    resolver.resolve4(hostname, (error, list) => ended(4, error, list));
    resolver.resolve6(hostname, (error, list) => ended(6, error, list));
  };
}

interface Question {
  readonly name: string;
  readonly family: 4 | 6;
  /** Where it ends in the message. */
  readonly end: number;
}

const headerBytes = 12;

function readQuestion(query: Buffer): Question {
  const labels: string[] = [];
  let at = headerBytes;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const family = query.readUInt16BE(at + 1) === 28 ? 6 : 4;
  return { name: labels.join('.').toLowerCase(), family, end: at + 5 };
}

function encode(query: Buffer, { family, end }: Question, answer: DnsAnswer): Buffer {
  const addresses = typeof answer === 'string' ? [] : answer;
  const records = addresses.filter((address) => isIPv4(address) === (family === 4)).map(record);
  const header = Buffer.from(query.subarray(0, headerBytes));
  const code = answer === 'no such name' ? 3 : answer === 'failure' ? 2 : 0;
  header.writeUInt16BE(0x8180 | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  // No name servers and nothing additional, although the query may have had an option.
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(headerBytes, end), ...records]);
}

/** With a pointer to the name in the question, and no time to live. */
function record(address: string): Buffer {
  const data = isIPv4(address) ? address.split('.').map(Number) : bytesOfIpv6(address);
  const head = Buffer.from([0xc0, headerBytes, 0, isIPv4(address) ? 1 : 28, 0, 1, 0, 0, 0, 0, 0]);
  return Buffer.concat([head, Buffer.from([data.length, ...data])]);
}

function bytesOfIpv6(address: string): number[] {
  const { hostname } = new URL(`http://[${address}]`);
  const [head = '', tail = ''] = hostname.slice(1, -1).split('::');
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((g) => parseInt(g, 16));
  const [first, last] = [groups(head), groups(tail)];
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => 0);
  return [...first, ...zeros, ...last].flatMap((group) => [group >> 8, group & 0xff]);
}
