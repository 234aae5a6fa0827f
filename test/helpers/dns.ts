import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, isIPv4, type Server } from 'node:net';

/** A name server on loopback that speaks real DNS over UDP and TCP (RFC 1035). */

/** For a resolver that uses its name servers only: no hosts file, no search domains. */
export const noFiles = { hostsFile: '/dev/null', resolvConf: '/dev/null' };

/** Addresses of both families (none: the name exists without any), an error, no answer, or a forged one. */
export type DnsAnswer =
  | readonly string[]
  | 'no such name'
  | 'failure'
  | 'silence'
  /** Addresses under another id, then under another name. */
  | 'forgeries'
  /** Two names that are aliases of each other. */
  | 'alias loop'
  /** Bytes that are not a DNS answer. */
  | 'noise';

/** Returns the answer for a name. `count` is the number of this question for the name and family, 1-indexed. */
export type Zone = (name: string, count: number, family: 4 | 6) => DnsAnswer | Promise<DnsAnswer>;

export interface DnsServer {
  /** Its address in the format of the resolver. */
  readonly servers: readonly string[];
  /** Questions so far, `<name> A` or `<name> AAAA`. */
  readonly questions: readonly string[];
  /** Questions that came over TCP. */
  readonly tcpQuestions: readonly string[];
  /** Source ports of the questions over UDP. */
  readonly ports: ReadonlySet<number>;
  close(): Promise<void>;
}

export async function startDns(zone: Zone): Promise<DnsServer> {
  const tcp = createServer();
  const port = await listen(tcp);
  const udp = createSocket('udp4');
  udp.bind(port, '127.0.0.1');
  await once(udp, 'listening');
  const questions: string[] = [];
  const tcpQuestions: string[] = [];
  const ports = new Set<number>();
  let isClosed = false;
  const answerTo = async (
    query: Buffer,
    isTcp: boolean,
    send: (answer: Buffer) => void,
  ): Promise<void> => {
    const question = readQuestion(query);
    const key = `${question.name} ${question.family === 4 ? 'A' : 'AAAA'}`;
    questions.push(key);
    if (isTcp) tcpQuestions.push(key);
    const count = questions.filter((before) => before === key).length;
    const answer = await zone(question.name, count, question.family);
    if (isClosed) return;
    const bytesMax = isTcp ? 65_535 : udpBytesMax;
    for (const each of encodeAll(query, question, answer, bytesMax)) send(each);
  };
  udp.on('message', (query, from) => {
    ports.add(from.port);
    void answerTo(query, false, (answer) => udp.send(answer, from.port, from.address));
  });
  tcp.on('connection', (socket) => {
    socket.on('error', () => undefined);
    // One question per connection, in one chunk: the resolver sends no more.
    socket.once('data', (bytes: Buffer) => {
      void answerTo(bytes.subarray(2), true, (answer) =>
        socket.write(Buffer.concat([uint16(answer.length), answer])),
      );
    });
  });
  return {
    servers: [`127.0.0.1:${port}`],
    questions,
    tcpQuestions,
    ports,
    close: async () => {
      isClosed = true;
      udp.close();
      tcp.close();
      await once(udp, 'close');
    },
  };
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  return address.port;
}

/** The longest answer over UDP; a longer one is truncated and marked. */
const udpBytesMax = 512;

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

/** The answers to one question, in the order in which they are sent. */
function encodeAll(
  query: Buffer,
  question: Question,
  answer: DnsAnswer,
  bytesMax: number,
): Buffer[] {
  if (answer === 'silence') return [];
  if (answer === 'noise') return [query.subarray(0, 5), Buffer.alloc(200, 0xff)];
  if (answer === 'forgeries') {
    const lie = encode(query, question, question.family === 4 ? ['192.0.2.66'] : ['::66'], 512);
    const otherId = Buffer.from(lie);
    otherId.writeUInt16BE(lie.readUInt16BE(0) ^ 1, 0);
    const otherName = Buffer.from(lie);
    otherName[headerBytes + 1] = 0x7a;
    return [otherId, otherName];
  }
  return [encode(query, question, answer, bytesMax)];
}

function encode(
  query: Buffer,
  { family, end }: Question,
  answer: readonly string[] | 'no such name' | 'failure' | 'alias loop',
  bytesMax: number,
): Buffer {
  const addresses = typeof answer === 'string' ? [] : answer;
  const records =
    answer === 'alias loop'
      ? [aliasOfItself]
      : addresses.filter((address) => isIPv4(address) === (family === 4)).map(record);
  const header = Buffer.from(query.subarray(0, headerBytes));
  const code = answer === 'no such name' ? 3 : answer === 'failure' ? 2 : 0;
  header.writeUInt16BE(0x8180 | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  // No name servers and nothing additional, although the query may have had an option.
  header.writeUInt32BE(0, 8);
  const question = query.subarray(headerBytes, end);
  const whole = Buffer.concat([header, question, ...records]);
  if (whole.length <= bytesMax) return whole;
  header.writeUInt16BE(0x8380 | code, 2);
  header.writeUInt16BE(0, 6);
  return Buffer.concat([header, question]);
}

/** A CNAME record that points to the name in the question, which is also its own name. */
const aliasOfItself = Buffer.from([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12]);

function uint16(value: number): Buffer {
  return Buffer.from([value >> 8, value & 0xff]);
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
