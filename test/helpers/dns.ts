import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';

/** A name server on loopback that speaks real DNS over UDP (RFC 1035). */

/** For a resolver that is to ask its name servers alone: no hosts file, no search domains. */
export const noFiles = { hostsFile: '/dev/null', resolvConf: '/dev/null' };

/** Addresses of both families (none: the name exists without any), or a refusal; or no answer. */
export type DnsAnswer = readonly string[] | 'no such name' | 'failure' | 'silence';

/** What a name has. `asked` counts the questions for this name and family, 1-indexed. */
export type Zone = (name: string, asked: number) => DnsAnswer;

export interface DnsServer {
  /** Its address, as the resolver takes it. */
  readonly servers: readonly string[];
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
  return {
    servers: [`127.0.0.1:${socket.address().port}`],
    questions,
    close: async () => {
      socket.close();
      await once(socket, 'close');
    },
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
