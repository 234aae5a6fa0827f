import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { rotateKey } from '../../src/auth/keys.ts';
import { webhookKeys } from '../../src/auth/key-use.ts';
import { readConfig, showConfig } from '../../src/config.ts';
import type { Setting, ShownSetting } from '../../src/core/setting.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

/** A text that no response may have; as base64 for keys. */
const marker = 'hunter2';
const key = Buffer.from(marker.repeat(5)).subarray(0, 32).toString('base64');

/** A text with the marker for every setting that has a secret, and what may be seen of it. */
const secrets: Readonly<Record<string, readonly [text: string, shown: string]>> = {
  LEAT_STORE: [
    `postgres://leat:${marker}@db:5432/leat?sslmode=require&password=${marker}`,
    'postgres://***@db:5432/leat?sslmode=require&password=***',
  ],
  LEAT_SECRET_KEY: [key, '***'],
  LEAT_BOOTSTRAP_CLIENT_SECRET: [`${marker}-${marker}-${marker}`, '***'],
  LEAT_ALERT_WEBHOOK_URL: [
    `https://hooks.example.com/T0/${marker}?token=${marker}#${marker}`,
    'https://hooks.example.com/***',
  ],
  LEAT_CONSOLE_OIDC_CLIENT_SECRET: [`${marker}-of-the-provider`, '***'],
  LEAT_SMTP_URL: [`smtp://leat:${marker}@mail.example.com:587`, 'smtp://***@mail.example.com:587'],
};
/** Those that the former require. */
const others = {
  LEAT_BOOTSTRAP_CLIENT_ID: 'operator',
  LEAT_ALERT_EMAIL: 'ops@example.com',
  LEAT_CONSOLE_OIDC_ISSUER: 'https://login.example.com/',
  LEAT_CONSOLE_OIDC_CLIENT_ID: 'leat',
  LEAT_CONSOLE_ROLES: 'main/groups:leat-admins=operator',
};

function settingsOf(env: Readonly<Record<string, string>>): readonly ShownSetting[] {
  const reading = readConfig(env);
  if ('problems' in reading) throw new Error(reading.problems.join('\n'));
  return showConfig(reading);
}

/** Returns all settings that have a secret, from the files that define settings. */
async function secretSettings(): Promise<Setting[]> {
  const folder = fileURLToPath(new URL('../../src/settings/', import.meta.url));
  const modules = await Promise.all(
    globSync('*.ts', { cwd: folder }).map(
      (name) => import(`${folder}${name}`) as Promise<Readonly<Record<string, object>>>,
    ),
  );
  return modules
    .flatMap((module) => Object.values(module))
    .flatMap((group) => Object.values(group) as Partial<Setting>[])
    .filter((each): each is Setting => each?.variable !== undefined && each.secret !== undefined);
}

async function open(
  t: TestContext,
  node: NonNullable<Parameters<typeof openApiFixture>[1]>['node'] = {},
): Promise<ApiFixture> {
  const fixture = await openApiFixture({}, { node });
  t.after(() => fixture.close());
  return fixture;
}

describe('GET /settings', () => {
  test('shows no secret of any setting', async (t) => {
    const found = (await secretSettings()).map(({ variable }) => variable);
    assert.deepEqual(found.toSorted(), Object.keys(secrets).toSorted(), 'each has its marker here');
    const texts = Object.entries(secrets).map(([name, [text]]) => [name, text]);
    const settings = settingsOf({ ...Object.fromEntries(texts), ...others });
    const fixture = await open(t, { settings });
    const { status, body, text } = await fixture.send('GET', '/settings');
    assert.equal(status, 200);
    for (const hidden of [marker, key, encodeURIComponent(key)]) {
      assert.ok(!text.includes(hidden), hidden);
    }
    const values = new Map(
      body.settings.map(({ name, value }: { name: string; value: string }) => [name, value]),
    );
    for (const [name, [, shown]] of Object.entries(secrets)) assert.equal(values.get(name), shown);
    const { privateJwk = '' } =
      (await fixture.auth.store.keys.list(fixture.auth.tenant.id, fixture.auth.clock.now()))[0] ??
      {};
    const { d } = JSON.parse(privateJwk) as { d: string };
    assert.ok(d.length > 100 && !text.includes(d));
  });

  test('shows value, default and meaning of each setting', async (t) => {
    const env = { LEAT_PORT: '9000', LEAT_EGRESS_ALLOW: '', LEAT_RETRY_4XX: '' };
    const fixture = await open(t, { settings: settingsOf(env) });
    const { settings } = (await fixture.send('GET', '/settings')).body;
    const of = (name: string) =>
      settings.find((each: { readonly name: string }) => each.name === name);
    assert.deepEqual(of('LEAT_PORT'), {
      name: 'LEAT_PORT',
      value: '9000',
      default: '8080',
      is_default: false,
      meaning: 'port to listen on',
    });
    const brief = (name: string) => {
      const { value, default: byDefault, is_default: isDefault } = of(name);
      return [value, byDefault, isDefault];
    };
    assert.deepEqual(brief('LEAT_TENANT_DOMAIN'), ['localhost:9000', 'localhost:9000', true]);
    assert.deepEqual(brief('LEAT_SECRET_KEY'), ['generated', 'generated', true]);
    assert.deepEqual(brief('LEAT_METRICS_PORT'), [null, null, true]);
    assert.deepEqual(brief('LEAT_EGRESS_ALLOW'), ['', '', true]);
    assert.equal(brief('LEAT_RETRY_4XX')[0], '');
    assert.equal(settings.length, settingsOf({}).length);
  });

  test('shows the keys of tokens and of webhooks, and which of them sign', async (t) => {
    const fixture = await open(t);
    const { store, tenant, clock } = fixture.auth;
    const keysNow = async () => (await fixture.send('GET', '/settings')).body.keys;
    const [first] = await keysNow();
    assert.deepEqual(first, {
      kid: first.kid,
      signs: 'access tokens',
      signs_from: new Date(clock.now()).toISOString(),
      expires_at: null,
      is_signing: true,
    });
    const now = clock.now();
    const rotated = await rotateKey(store, tenant.id, { now, immediately: false });
    await rotateKey(store, tenant.id, { now, immediately: true, use: webhookKeys });
    const [next, former, ofWebhooks, ...more] = await keysNow();
    assert.deepEqual(more, []);
    assert.deepEqual([next.kid, next.is_signing, next.expires_at], [rotated.kid, false, null]);
    assert.deepEqual([former.kid, former.is_signing], [first.kid, true]);
    assert.ok(Date.parse(former.expires_at) > now);
    assert.deepEqual([ofWebhooks.signs, ofWebhooks.is_signing], ['webhooks', true]);
  });

  test('shows where alerts are sent', async (t) => {
    const alertChannels = [
      { channel: 'webhook', target: 'https://hooks.example.com/***' },
      { channel: 'email', target: 'ops@example.com' },
    ] as const;
    const fixture = await open(t, { alertChannels });
    assert.deepEqual((await fixture.send('GET', '/settings')).body.alert_channels, alertChannels);
    const { body } = await (await open(t)).send('GET', '/settings');
    assert.deepEqual(body.alert_channels, [{ channel: 'log' }]);
  });
});
