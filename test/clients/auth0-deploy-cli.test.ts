import assert from 'node:assert/strict';
import { readdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { trusted } from '../helpers/certificates.ts';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import {
  expectBody,
  createStream,
  freshName,
  freshType,
  publish,
  readStream,
  type StreamBody,
  token,
} from '../helpers/api-client.ts';
import { rounds } from '../helpers/rounds.ts';
import { bootstrapClient, type Ended, type Fixture, openFixture, runProgram } from './fixture.ts';

/**
 * The command line tool as a process that trusts the certificate by NODE_EXTRA_CA_CERTS. Exports run the
 * unchanged tool. Imports do so with all rounds only, as it would compute for more than ten seconds before
 * the first request of each; its version is exact, so a result holds until the package changes.
 */

const program = fileURLToPath(import.meta.resolve('auth0-deploy-cli'));
const isAll = rounds({ few: 0, all: 1 }) === 1;
/** The schema of prompts alone is left out; no definition here has any. */
const quick = isAll ? [] : [`--import=${import.meta.resolve('./process/without-prompts.ts')}`];

let fixture: Fixture;

before(async () => {
  fixture = await openFixture();
});
after(() => fixture?.close());

function deploy(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
): Promise<Ended> {
  const settings = {
    NODE_EXTRA_CA_CERTS: fixture.caFile,
    AUTH0_DOMAIN: fixture.domain,
    AUTH0_CLIENT_ID: bootstrapClient.id,
    AUTH0_CLIENT_SECRET: bootstrapClient.secret,
    AUTH0_INCLUDED_ONLY: '["eventStreams"]',
    NO_COLOR: '1',
    ...env,
  };
  // The tool reads config.json of its working directory, if there is one.
  return runProgram(
    process.execPath,
    [...flags, program, ...words],
    settings,
    fixture.tempStore.folder,
  );
}

function exporting(format: 'yaml' | 'directory', folder: string): string[] {
  return ['export', '--format', format, '--output_folder', folder];
}

/** Exports into a fresh folder and returns its path. */
async function exported(
  format: 'yaml' | 'directory',
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const folder = join(fixture.tempStore.folder, freshName());
  const { code, stdout, stderr } = await deploy(exporting(format, folder), env);
  assert.equal(code, 0, stdout + stderr);
  return folder;
}

async function imported(input: string, env: Readonly<Record<string, string>>): Promise<string> {
  const { code, stdout, stderr } = await deploy(['import', '--input_file', input], env, quick);
  assert.equal(code, 0, stdout + stderr);
  return stdout;
}

async function endpointOf(t: TestContext): Promise<Endpoint> {
  const endpoint = await startEndpoint();
  t.after(() => endpoint.close());
  return endpoint;
}

async function streamNamed(name: string): Promise<StreamBody | undefined> {
  const { eventStreams } = await expectBody<{ eventStreams: StreamBody[] }>(
    200,
    fixture.send('GET', '/api/v2/event-streams?take=100'),
  );
  return eventStreams.find((stream) => stream.name === name);
}

/** Each test begins with a tenant without streams: an import processes all of them. */
async function deleteStreams(): Promise<void> {
  for (;;) {
    const { eventStreams } = await expectBody<{ eventStreams: StreamBody[] }>(
      200,
      fixture.send('GET', '/api/v2/event-streams?take=100'),
    );
    if (eventStreams.length === 0) return;
    for (const { id } of eventStreams) await fixture.send('DELETE', `/api/v2/event-streams/${id}`);
  }
}

describe('event streams as code', () => {
  test('an export holds more streams than one page', { tags: ['long'] }, async () => {
    await deleteStreams();
    const names = Array.from({ length: 51 }, (_, number) => `stream-${number + 10}`);
    for (const name of names) {
      await createStream(fixture, 'https://hooks.example.net/', { name });
    }
    const listed = await readFile(join(await exported('yaml'), 'tenant.yaml'), 'utf8');
    assert.deepEqual(
      [...listed.matchAll(/^ {2}- name: (?<name>.+)$/gm)].map((match) => match.groups?.['name']),
      names,
    );
  });
});

describe('clients, APIs, client grants, roles and event streams as code', () => {
  const included = {
    AUTH0_INCLUDED_ONLY: '["clients","resourceServers","clientGrants","roles","eventStreams"]',
  };
  const definition = `
clients:
  - name: shop
    app_type: regular_web
    callbacks: [https://shop.example.com/callback]
    client_metadata: { team: orders }
    grant_types: [authorization_code, client_credentials]
    is_first_party: true
    jwt_configuration: { alg: RS256, lifetime_in_seconds: 36000 }
    oidc_conformant: true
    refresh_token: { expiration_type: non-expiring, rotation_type: non-rotating }
    token_endpoint_auth_method: client_secret_post
resourceServers:
  - name: Orders
    identifier: https://orders.example.com
    allow_offline_access: false
    scopes: [{ value: 'read:orders', description: Read orders }]
    signing_alg: RS256
    skip_consent_for_verifiable_first_party_clients: true
    subject_type_authorization: { client: { policy: require_client_grant } }
    token_lifetime: 3600
clientGrants:
  - client_id: shop
    audience: https://orders.example.com
    scope: ['read:orders']
    subject_type: client
    allow_any_organization: false
    organization_usage: deny
roles:
  - name: order-reader
    description: Reads orders
    permissions:
      - resource_server_identifier: https://orders.example.com
        permission_name: read:orders
eventStreams:
  - name: shop-events
    status: enabled
    subscriptions: [{ event_type: user.created }]
    destination:
      type: webhook
      configuration:
        webhook_endpoint: https://hooks.example.net/shop
        webhook_authorization: { method: bearer, token: kept }
    delivery:
      retry: { delays_seconds: [60, 3600] }
      per_second: 20
      headers: { X-Environment: test }
      concurrency: 2
      timeout_ms: 5000
      signature: v1 v1a
      filter:
        type: user.created
        data.object.email_verified: true
        data.object.plan: { $in: [pro, team] }
        $or:
          - data.object.email: { $endsWith: '@example.com' }
          - data.object.logins: { $gte: 5 }
  - name: shop-tokens
    status: enabled
    subscriptions: [{ event_type: user.created }]
    destination:
      type: webhook
      configuration:
        webhook_endpoint: https://hooks.example.net/shop
        webhook_authorization:
          method: oauth2_client_credentials
          token_endpoint: https://login.example.net/token
          client_id: shop
          client_secret: planted-client-secret
          scope: hooks
  - name: shop-mutual
    status: enabled
    subscriptions: [{ event_type: user.created }]
    destination:
      type: webhook
      configuration:
        webhook_endpoint: https://hooks.example.net/shop
        webhook_authorization: { method: bearer, token: kept }
        client_certificate:
          certificate: ${JSON.stringify(trusted.cert)}
          private_key: ${JSON.stringify(trusted.key)}
`;

  /** Returns all that is stored of the four resources. */
  async function state(): Promise<Record<string, unknown>> {
    const all: Record<string, unknown> = {};
    const paths = ['clients', 'resource-servers', 'client-grants', 'roles', 'event-streams'];
    for (const path of paths) {
      all[path] = await expectBody(200, fixture.send('GET', `/api/v2/${path}`));
    }
    for (const { id } of all['roles'] as { id: string }[]) {
      const path = `/api/v2/roles/${id}/permissions`;
      all[path] = await expectBody(200, fixture.send('GET', path));
    }
    return JSON.parse(
      JSON.stringify(all, (name, value: unknown) => (name === 'updated_at' ? '' : value)),
    ) as Record<string, unknown>;
  }

  /** Returns what the tool prints. */
  async function importDefinition(): Promise<string> {
    const file = join(fixture.tempStore.folder, `${freshName()}.yaml`);
    await writeFile(file, definition);
    return imported(file, included);
  }

  test(
    'imports create what a definition says, change nothing the second time, and apply what an export was changed to',
    { tags: ['long'] },
    async (t) => {
      await deleteStreams();
      const endpoint = await endpointOf(t);
      const type = freshType();
      const kept = await createStream(fixture, endpoint.url, { name: 'kept', types: [type] });
      const changed = await createStream(fixture, 'https://hooks.example.net/old', {
        name: 'changed',
        types: [type],
        authorization: { method: 'basic', username: 'ada', password: 'first' },
      });
      const gone = await createStream(fixture, 'https://hooks.example.net/gone', { name: 'gone' });

      await importDefinition();
      const first = await state();
      const clients = first['clients'] as {
        name: string;
        app_type?: string;
        callbacks?: string[];
      }[];
      const shop = clients.find(({ name }) => name === 'shop');
      assert.deepEqual(
        [shop?.app_type, shop?.callbacks],
        ['regular_web', ['https://shop.example.com/callback']],
      );
      const text = JSON.stringify(first);
      for (const each of ['"signing_alg":"RS256"', '"organization_usage":"deny"', 'read:orders']) {
        assert.ok(text.includes(each), each);
      }

      const options = (await streamNamed('shop-events'))?.delivery;
      assert.deepEqual(options, {
        retry: { delays_seconds: [60, 3600] },
        per_second: 20,
        headers: { 'X-Environment': 'test' },
        concurrency: 2,
        timeout_ms: 5000,
        signature: 'v1 v1a',
        filter: {
          type: 'user.created',
          'data.object.email_verified': true,
          'data.object.plan': { $in: ['pro', 'team'] },
          $or: [
            { 'data.object.email': { $endsWith: '@example.com' } },
            { 'data.object.logins': { $gte: 5 } },
          ],
        },
      });
      const { destination: mutual } = (await streamNamed('shop-mutual')) ?? {};
      assert.equal(mutual?.configuration.client_certificate?.certificate, trusted.cert);

      assert.doesNotMatch(await importDefinition(), /Created \[|Deleted \[/);
      assert.deepEqual(await state(), first);

      const file = join(await exported('yaml', included), 'tenant.yaml');
      await writeFile(file, editedStreams(await readFile(file, 'utf8'), endpoint.url));
      const settings = { ...included, AUTH0_ALLOW_DELETE: 'true', MADE_TOKEN: 'of the new one' };
      const printed = await imported(file, settings);
      assert.match(printed, /Import Successful/);
      const streams = 'event-streams';
      assert.deepEqual({ ...(await state()), [streams]: first[streams] }, first);

      const response = await fixture.send('GET', `/api/v2/event-streams/${gone.id}`);
      assert.equal(response.status, 404);
      const { status, delivery } = (await streamNamed('shop-events')) ?? {};
      assert.deepEqual([status, delivery], ['disabled', options]);
      const original = (first[streams] as { eventStreams: StreamBody[] }).eventStreams;
      for (const name of ['shop-tokens', 'shop-mutual']) {
        assert.deepEqual(
          (await streamNamed(name))?.destination,
          original.find((stream) => stream.name === name)?.destination,
          'the export without the secret changed nothing',
        );
      }
      const { updated_at } = await readStream(fixture, kept.id);
      assert.deepEqual(await readStream(fixture, kept.id), { ...kept, updated_at });
      const { destination, subscriptions } = await readStream(fixture, changed.id);
      assert.equal(destination.configuration.webhook_endpoint, endpoint.url);
      assert.deepEqual(subscriptions, changed.subscriptions);

      const id = await publish(fixture, type);
      await endpoint.arrival(3);
      assert.deepEqual(
        new Set(endpoint.of(id).map(({ headers }) => headers.authorization)),
        new Set([
          `Bearer ${token}`,
          `Basic ${Buffer.from('ada:second').toString('base64')}`,
          'Bearer of the new one',
        ]),
      );
    },
  );

  /** Returns the export without `gone`, with `changed` and `shop-events` changed, and with `made`. */
  function editedStreams(written: string, url: string): string {
    const [head = '', streams = '', tail = ''] = written.split(/^(eventStreams:\n(?:[ -].*\n)*)/m);
    assert.ok(
      !/est_|first|created_at|planted-|PRIVATE KEY/.test(streams) && !written.includes(token),
      written,
    );
    const [, ...items] = streams.split(/^(?= {2}- name: )/m);
    const named = (name: string): string => {
      const item = items.find((each) => each.startsWith(`  - name: ${name}\n`));
      assert.ok(item !== undefined, written);
      return item;
    };
    const edited = named('changed')
      .replace('https://hooks.example.net/old', url)
      .replace(/password: .*/, 'password: second');
    const made = named('kept')
      .replace('name: kept', 'name: made')
      .replace(/token: .*/, "token: '##MADE_TOKEN##'");
    const disabled = named('shop-events').replace('status: enabled', 'status: disabled');
    const same = named('kept') + named('shop-tokens') + named('shop-mutual');
    return `${head}eventStreams:\n${same}${edited}${disabled}${made}${tail}`;
  }
});

describe('an error', () => {
  test(
    'an import of a directory that changes a destination without its secret names the missing field, and deletes nothing',
    { tags: ['long'] },
    async () => {
      await deleteStreams();
      await createStream(fixture, 'https://hooks.example.net/a', { name: 'crm' });
      await createStream(fixture, 'https://hooks.example.net/b', { name: 'absent' });
      const streams = join(await exported('directory'), 'event-streams');
      assert.deepEqual((await readdir(streams)).toSorted(), ['absent.json', 'crm.json']);
      await unlink(join(streams, 'absent.json'));
      const file = join(streams, 'crm.json');
      const text = await readFile(file, 'utf8');
      await writeFile(
        file,
        text.replace('https://hooks.example.net/a', 'https://evil.example.net/'),
      );
      const { code, stdout, stderr } = await deploy(
        ['import', '--input_file', dirname(streams)],
        {},
        quick,
      );
      assert.equal(code, 1, stdout);
      assert.match(
        stdout + stderr,
        /Missing required property: token \(required because the destination changes\)/,
      );
      const { destination } = (await streamNamed('crm')) ?? {};
      assert.equal(destination?.configuration.webhook_endpoint, 'https://hooks.example.net/a');
      assert.equal((await streamNamed('absent'))?.status, 'enabled');
    },
  );

  test(
    'an error of a client without the scope is printed without the scopes',
    { tags: ['long'] },
    async () => {
      const made = await expectBody<{ client_id: string; client_secret: string }>(
        201,
        fixture.send('POST', '/api/v2/clients', { name: freshName(), global: true }),
      );
      const { client_id, client_secret } = made;
      const audience = `https://${fixture.domain}/api/v2/`;
      await expectBody(
        201,
        fixture.send('POST', '/api/v2/client-grants', {
          client_id,
          audience,
          scope: ['read:users'],
        }),
      );
      const folder = join(fixture.tempStore.folder, freshName());
      const { stdout, stderr } = await deploy(exporting('yaml', folder), {
        AUTH0_CLIENT_ID: client_id,
        AUTH0_CLIENT_SECRET: client_secret,
      });
      // The tool treats the part of the message after a comma as scopes: docs/http-api.md#client-compatibility.
      assert.match(stdout + stderr, /Cannot retrieve eventStreams due to missing scopes: *\n/);
    },
  );

  test('an untrusted certificate ends the tool', { tags: ['long'] }, async () => {
    const folder = join(fixture.tempStore.folder, freshName());
    const { code, stdout, stderr } = await deploy(exporting('yaml', folder), {
      NODE_EXTRA_CA_CERTS: '',
    });
    assert.notEqual(code, 0, stdout);
    assert.match(stdout + stderr, /Problem running command export\n.*The request failed/);
  });
});
