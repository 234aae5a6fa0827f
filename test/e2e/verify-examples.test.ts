import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createStream, expectBody, freshType, publish } from '../helpers/api-client.ts';
import { type Arrival, type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import { runServer } from './fixture.ts';

/** The verifying programs of docs/receivers.md, run with a delivery of a real Leat. */

const folder = new URL('../../examples/receivers/', import.meta.url).pathname;

interface Program {
  readonly language: string;
  readonly command: readonly string[];
  /** Exits with 0 where the program can run, and is not run otherwise. */
  readonly present: readonly string[];
  /** Compiles the program into a folder once: each run would compile it again for a second or two. */
  readonly compile?: (into: string) => {
    readonly compiler: readonly string[];
    readonly compiled: readonly string[];
  };
}

/** Code of a process that ends within a second is not worth optimizing. */
const javaFlags = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

const programs: readonly Program[] = [
  {
    language: 'Node',
    command: [process.execPath, 'verify.mjs'],
    present: [process.execPath, '-v'],
  },
  {
    language: 'Python',
    command: ['python3', 'verify.py'],
    present: ['python3', '-c', 'import cryptography'],
  },
  {
    language: 'Go',
    command: ['go', 'run', 'verify.go'],
    present: ['go', 'version'],
    compile: (into) => ({
      compiler: ['go', 'build', '-o', `${into}/verify`, 'verify.go'],
      compiled: [`${into}/verify`],
    }),
  },
  // Single-file programs with records: from Java 17 on.
  {
    language: 'Java',
    command: ['java', 'Verify.java'],
    present: ['java', '--source', '17', '--version'],
    compile: (into) => ({
      // Also where `java Verify.java` runs without a `javac`.
      compiler: [
        'java',
        ...javaFlags,
        '-m',
        'jdk.compiler/com.sun.tools.javac.Main',
        '-encoding',
        'UTF-8',
        '-d',
        into,
        'Verify.java',
      ],
      compiled: ['java', ...javaFlags, '-cp', into, 'Verify'],
    }),
  },
  {
    language: 'PHP',
    command: ['php', 'verify.php'],
    present: ['php', '-r', 'exit(function_exists("sodium_crypto_sign_detached") ? 0 : 1);'],
  },
  { language: 'Ruby', command: ['ruby', 'verify.rb'], present: ['ruby', '-ropenssl', '-e', '0'] },
];

let leat: Running;
runServer({}, (running) => {
  leat = running;
});

/** What a program gets: the parts of a request, and what it verifies with. */
interface Given {
  readonly scheme: 'v1' | 'v1a';
  readonly id: string;
  readonly timestamp: string;
  readonly signature: string;
  readonly keyId: string;
  readonly body: string;
  readonly secret: string;
  readonly keysUrl: string;
}

let endpoint: Endpoint;
let delivered: Omit<Given, 'scheme'>;
let forged: Awaited<ReturnType<typeof publishKeys>>;

function partsOf({
  headers,
  body,
}: Arrival): Pick<Given, 'id' | 'timestamp' | 'signature' | 'keyId' | 'body'> {
  const header = (name: string): string => String(headers[name]);
  return {
    id: header('webhook-id'),
    timestamp: header('webhook-timestamp'),
    signature: header('webhook-signature'),
    keyId: header('webhook-key-id'),
    body,
  };
}

/** Publishes a key of the test under the id of Leat's key. */
async function publishKeys(kid: string): Promise<{
  readonly url: string;
  readonly key: KeyObject;
  close(): Promise<void>;
}> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'EdDSA' };
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify({ keys: [jwk] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/keys.json`,
    key: privateKey,
    close: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}

/** Returns a request of `ageSeconds` ago with both signatures, by the specification. */
function signedAgo(ageSeconds: number): Omit<Given, 'scheme'> {
  const { id, body, secret } = delivered;
  const timestamp = String(Math.floor(Date.now() / 1000) - ageSeconds);
  const text = Buffer.from(`${id}.${timestamp}.${body}`);
  const hmac = createHmac('sha256', Buffer.from(secret.replace('whsec_', ''), 'base64'));
  const v1 = hmac.update(text).digest('base64');
  const v1a = sign(null, text, forged.key).toString('base64');
  return { ...delivered, timestamp, signature: `v1,${v1} v1a,${v1a}`, keysUrl: forged.url };
}

const environment = {
  PATH: process.env['PATH'],
  HOME: process.env['HOME'],
  GOCACHE: `${tmpdir()}/leat-go`,
  PYTHONDONTWRITEBYTECODE: '1',
};

/** Returns the command that runs the program most quickly. */
function quickest(program: Program, into: string): readonly string[] {
  const { compiler, compiled } = program.compile?.(into) ?? {};
  const [name, ...args] = compiler ?? [];
  if (name === undefined || compiled === undefined) return program.command;
  const { status } = spawnSync(name, args, { cwd: folder, env: environment, stdio: 'inherit' });
  assert.equal(status, 0, `${name} has failed`);
  return compiled;
}

async function run(
  command: readonly string[],
  given: Given,
): Promise<{ code: unknown; output: string }> {
  const [program = '', ...args] = command;
  const headers = [given.id, given.timestamp, given.signature];
  if (given.scheme === 'v1a') headers.push(given.keyId);
  const child = spawn(program, [...args, given.scheme, ...headers], {
    cwd: folder,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...environment,
      ...(given.scheme === 'v1'
        ? { WEBHOOK_SECRET: given.secret }
        : { WEBHOOK_KEYS: given.keysUrl }),
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  child.stdin.on('error', () => undefined);
  child.stdin.end(given.body);
  const [code] = (await once(child, 'close')) as unknown[];
  return { code, output };
}

describe('verifying programs', () => {
  before(async () => {
    endpoint = await startEndpoint((response) => void response.writeHead(204).end());
    const type = freshType();
    const delivery = { signature: 'v1 v1a' };
    const { id: stream } = await createStream(leat, endpoint.url, { types: [type], delivery });
    const path = `/api/v2/event-streams/${stream}/signing-secret`;
    const { secret } = await expectBody<{ secret: string }>(200, leat.send('GET', path));
    const id = await publish(leat, type, { name: 'Ada ☂' });
    await waitFor('the delivery', () => endpoint.of(id).length === 1);
    const [arrival = assert.fail()] = endpoint.of(id);
    delivered = {
      ...partsOf(arrival),
      secret,
      keysUrl: `${leat.url}/.well-known/webhook-keys.json`,
    };
    forged = await publishKeys(delivered.keyId);
  });
  after(async () => {
    await endpoint.close();
    await forged.close();
  });

  for (const program of programs) {
    const { language, present } = program;
    const [check = '', ...args] = present;
    const skip =
      spawnSync(check, args, { stdio: 'ignore' }).status === 0
        ? false
        : `${language} with what its program needs is not on this machine`;

    describe(`verifying program in ${language}`, { skip }, () => {
      let command: readonly string[] = program.command;
      let into = '';
      before(async () => {
        into = await mkdtemp(join(tmpdir(), 'leat-verify-'));
        command = quickest(program, into);
      });
      after(() => rm(into, { recursive: true, force: true }));

      for (const scheme of ['v1', 'v1a'] as const) {
        const accepts = async (
          given: Omit<Given, 'scheme'>,
          by: readonly string[] = command,
        ): Promise<void> => {
          const { code, output } = await run(by, { ...given, scheme });
          assert.deepEqual([code, output.trim()], [0, 'genuine']);
        };
        const refuses = async (given: Omit<Given, 'scheme'>): Promise<void> => {
          const { code, output } = await run(command, { ...given, scheme });
          assert.match(output, /^refused$/m);
          assert.equal(code, 1);
        };

        test(`${language}, ${scheme}: accepts a delivery of Leat`, { tags: ['long'] }, async () => {
          assert.match(delivered.signature, /^v1,\S{44} v1a,\S{88}$/);
          // As docs/receivers.md runs it.
          await accepts(delivered, program.command);
          await accepts(signedAgo(240));
        });

        test(
          `${language}, ${scheme}: refuses a changed body and other signatures`,
          { tags: ['long'] },
          async () => {
            await refuses({ ...delivered, body: delivered.body.replace('Ada', 'Eve') });
            const texts = delivered.signature.split(' ').toReversed();
            // Each signature under the name of the other scheme.
            const swapped = ['v1', 'v1a'].map((name, at) => `${name},${texts[at]?.split(',')[1]}`);
            await refuses({
              ...delivered,
              signature: `${swapped.join(' ')} v1 v1, v1a,? v1a,QUJD`,
            });
          },
        );

        test(`${language}, ${scheme}: refuses a wrong key`, { tags: ['long'] }, async () => {
          const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
          await refuses({ ...delivered, secret, keysUrl: forged.url });
        });

        test(`${language}, ${scheme}: refuses an old timestamp`, { tags: ['long'] }, async () => {
          await refuses(signedAgo(310));
        });
      }

      test(
        `${language}, v1a: refuses a key that is not published`,
        { tags: ['long'] },
        async () => {
          const { code } = await run(command, { ...delivered, scheme: 'v1a', keyId: 'unknown' });
          assert.equal(code, 1);
        },
      );
    });
  }
});
