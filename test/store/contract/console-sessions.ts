import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { consoleLimits, consoleRoles } from '../../../src/core/console-session.ts';
import { hourMs, minuteMs } from '../../../src/core/units.ts';
import type { NewSession } from '../../../src/store/port/console-sessions.ts';
import { newEntry } from './audit-log.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, type Fixture, start } from './fixture.ts';

export function consoleSessionsContract(engine: Engine): void {
  describe(`${engine.name}: one-time codes of the console`, () => codesContract(engine));
  describe(`${engine.name}: sessions of the console`, () => {
    sessionsContract(engine);
    boundsContract(engine);
  });
}

/** Returns 32 bytes that stand for the SHA-256 of this text. */
export function hashOf(text: string): Uint8Array {
  return Buffer.alloc(32, text);
}

export function newSession(
  tenant: number,
  id: string,
  given: Partial<NewSession> = {},
): NewSession {
  const names = { role: 'operator', user: 'one-time link', mapping: undefined } as const;
  return { tenant, id, secretHash: hashOf(id), ...names, ...given };
}

function redeemedAs(id: string): Pick<NewSession, 'id' | 'secretHash' | 'user'> {
  return { id, secretHash: hashOf(id), user: 'one-time link' };
}

function codesContract(engine: Engine): void {
  for (const role of consoleRoles) {
    test(`redeem: a code begins a session with its role, ${role}`, async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      await store.consoleSessions.addCode({ tenant, codeHash: hashOf('code'), role });
      const session = await store.consoleSessions.redeem(
        tenant,
        hashOf('code'),
        redeemedAs('ses_1'),
      );
      assert.deepEqual(session, {
        id: 'ses_1',
        tenant,
        role,
        user: 'one-time link',
        mapping: undefined,
        createdAt: start,
        usedAt: start,
        endsAt: start + hourMs,
      });
      const read = await store.consoleSessions.get(tenant, hashOf('ses_1'), false);
      assert.deepEqual(read, session);
    });
  }

  test('redeem: refuses a code that is unknown, used, or of another tenant', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    await consoleSessions.addCode({ tenant, codeHash: hashOf('code'), role: 'viewer' });
    const redeem = async (from: number, code: string, id: string) =>
      (await consoleSessions.redeem(from, hashOf(code), redeemedAs(id)))?.id;
    assert.equal(await redeem(tenant, 'unknown', 'a'), undefined);
    assert.equal(await redeem(other.id, 'code', 'b'), undefined);
    assert.equal(await redeem(tenant, 'code', 'c'), 'c');
    assert.equal(await redeem(tenant, 'code', 'd'), undefined);
    assert.deepEqual(await idsOf(store, tenant), ['c']);
    assert.deepEqual(await idsOf(store, other.id), []);
  });

  test('roleOfCode: returns the role of a code until it is used or expires, and does not use it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { consoleSessions } = fixture.store;
    const { tenant } = fixture;
    const other = await addTenant(fixture.store, 'other');
    for (const code of ['code', 'used']) {
      await consoleSessions.addCode({ tenant, codeHash: hashOf(code), role: 'support' });
    }
    await consoleSessions.redeem(tenant, hashOf('used'), redeemedAs('a'));
    const roleOf = (code: string, of = tenant) => consoleSessions.roleOfCode(of, hashOf(code));
    assert.equal(await roleOf('code'), 'support');
    assert.equal(await roleOf('code'), 'support');
    assert.equal(await roleOf('used'), undefined);
    assert.equal(await roleOf('code', other.id), undefined);
    fixture.now = start + 10 * minuteMs;
    assert.equal(await roleOf('code'), undefined);
  });

  test('redeem: of several uses of one code at the same time one gets the session', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const { consoleSessions } = store;
    await consoleSessions.addCode({ tenant, codeHash: hashOf('code'), role: 'operator' });
    const sessions = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        consoleSessions.redeem(tenant, hashOf('code'), redeemedAs(`ses_${index}`)),
      ),
    );
    const begun = sessions.filter((session) => session !== undefined);
    assert.equal(begun.length, 1);
    assert.deepEqual(await consoleSessions.list(tenant), begun);
  });

  test('redeem: a code expires 10 minutes after it was added', async (t) => {
    const fixture = await createFixture(engine, t);
    const { consoleSessions } = fixture.store;
    const { tenant } = fixture;
    for (const code of ['early', 'late']) {
      await consoleSessions.addCode({ tenant, codeHash: hashOf(code), role: 'operator' });
    }
    fixture.now = start + 10 * minuteMs - 1;
    assert.ok(await consoleSessions.redeem(tenant, hashOf('early'), redeemedAs('a')));
    fixture.now = start + 10 * minuteMs;
    assert.equal(await consoleSessions.redeem(tenant, hashOf('late'), redeemedAs('b')), undefined);
  });

  test('redeem: a code from when the clock was ahead has expired', async (t) => {
    const fixture = await createFixture(engine, t);
    const { consoleSessions } = fixture.store;
    const { tenant } = fixture;
    fixture.now = start + 24 * hourMs;
    await consoleSessions.addCode({ tenant, codeHash: hashOf('code'), role: 'operator' });
    fixture.now = start;
    const session = await consoleSessions.redeem(tenant, hashOf('code'), redeemedAs('a'));
    assert.equal(session, undefined);
  });

  test('addCode: of more than 100 open codes of a tenant the oldest are removed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    const foreign = { tenant: other.id, codeHash: hashOf('foreign'), role: 'viewer' } as const;
    await consoleSessions.addCode(foreign);
    for (let number = 1; number <= consoleLimits.codesMax + 1; number += 1) {
      fixture.now += 1;
      await consoleSessions.addCode({ tenant, codeHash: hashOf(`${number}.`), role: 'viewer' });
    }
    const redeem = async (from: number, code: string): Promise<boolean> =>
      (await consoleSessions.redeem(from, hashOf(code), redeemedAs(code))) !== undefined;
    assert.deepEqual(
      [
        await redeem(tenant, '1.'),
        await redeem(tenant, '2.'),
        await redeem(tenant, `${consoleLimits.codesMax + 1}.`),
        await redeem(other.id, 'foreign'),
      ],
      [false, true, true, true],
    );
  });

  test('addCode, redeem, begin: do nothing for a tenant that is being removed', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const { consoleSessions } = store;
    const code = { tenant, codeHash: hashOf('code'), role: 'viewer' } as const;
    assert.equal(await consoleSessions.addCode(code), true);
    await store.tenants.leave(tenant);
    assert.equal(await consoleSessions.addCode({ ...code, codeHash: hashOf('other') }), false);
    assert.equal(await consoleSessions.redeem(tenant, hashOf('code'), redeemedAs('a')), undefined);
    assert.equal(await consoleSessions.begin(newSession(tenant, 'b')), undefined);
    assert.deepEqual(await idsOf(store, tenant), []);
  });
}

function sessionsContract(engine: Engine): void {
  test('begin: the session is read as it began', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const names = { user: 'Zoë 🦊 "x"', mapping: 'main/groups:leat-admins=support' };
    const begun = newSession(tenant, 'ses_1', { role: 'support', ...names });
    const session = await store.consoleSessions.begin(begun);
    assert.deepEqual(session, {
      id: 'ses_1',
      tenant,
      role: 'support',
      ...names,
      createdAt: start,
      usedAt: start,
      endsAt: start + hourMs,
    });
    assert.deepEqual(await store.consoleSessions.get(tenant, begun.secretHash, true), session);
  });

  test('get: knows a session by its secret and its tenant only', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    await consoleSessions.begin(newSession(tenant, 'ses_1'));
    for (const isUse of [true, false]) {
      assert.equal(await consoleSessions.get(tenant, hashOf('other'), isUse), undefined);
      assert.equal(await consoleSessions.get(other.id, hashOf('ses_1'), isUse), undefined);
    }
  });

  test('get: records a use once a minute', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.store.consoleSessions.begin(newSession(fixture.tenant, 'ses_1'));
    const usedAt = async (at: number, isUse = true): Promise<number | undefined> => {
      fixture.now = start + at;
      return (await sessionOf(fixture, isUse))?.usedAt;
    };
    assert.equal(await usedAt(minuteMs - 1), start);
    assert.equal(await usedAt(minuteMs, false), start);
    assert.equal(await usedAt(minuteMs), start + minuteMs);
    assert.equal(await usedAt(2 * minuteMs - 1), start + minuteMs);
    assert.equal(await usedAt(5 * minuteMs), start + 5 * minuteMs);
    const session = await sessionOf(fixture, false);
    assert.deepEqual(
      [session?.usedAt, session?.endsAt],
      [start + 5 * minuteMs, start + 5 * minuteMs + hourMs],
    );
  });

  test('get: many uses at the same time all get the session', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.store.consoleSessions.begin(newSession(fixture.tenant, 'ses_1'));
    fixture.now = start + minuteMs;
    const used = await Promise.all(Array.from({ length: 20 }, () => sessionOf(fixture, true)));
    assert.deepEqual(new Set(used.map((session) => session?.usedAt)), new Set([fixture.now]));
  });

  test('get: a session ends 60 minutes after its last use', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.store.consoleSessions.begin(newSession(fixture.tenant, 'ses_1'));
    fixture.now = start + hourMs - 1;
    assert.equal((await sessionOf(fixture, false))?.endsAt, start + hourMs);
    assert.equal((await sessionOf(fixture, true))?.endsAt, fixture.now + hourMs);
    fixture.now += hourMs;
    assert.equal(await sessionOf(fixture, false), undefined);
    assert.equal(await sessionOf(fixture, true), undefined);
    assert.deepEqual(await idsOf(fixture.store, fixture.tenant), []);
  });

  test('get: a session ends after 12 hours although it is used', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.store.consoleSessions.begin(newSession(fixture.tenant, 'ses_1'));
    const end = start + 12 * hourMs;
    for (fixture.now = start; fixture.now < end; fixture.now += hourMs / 2) {
      const session = await sessionOf(fixture, true);
      assert.equal(session?.endsAt, Math.min(fixture.now + hourMs, end));
    }
    assert.equal(fixture.now, end);
    assert.equal(await sessionOf(fixture, true), undefined);
  });

  test('get: a session that was used while the clock was ahead has ended', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.now = start + 24 * hourMs;
    await fixture.store.consoleSessions.begin(newSession(fixture.tenant, 'ses_1'));
    fixture.now = start;
    assert.equal(await sessionOf(fixture, true), undefined);
    assert.deepEqual(await idsOf(fixture.store, fixture.tenant), []);
    assert.ok(await fixture.store.consoleSessions.begin(newSession(fixture.tenant, 'ses_2')));
    assert.equal((await sessionOf(fixture, true, 'ses_2'))?.id, 'ses_2');
  });

  test('end: ends the session with this secret, once', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    for (const id of ['a', 'b', 'late']) await consoleSessions.begin(newSession(tenant, id));
    assert.equal(await consoleSessions.end(other.id, hashOf('a')), false);
    assert.equal(await consoleSessions.end(tenant, hashOf('a')), true);
    assert.equal(await consoleSessions.end(tenant, hashOf('a')), false);
    assert.equal(await sessionOf(fixture, true, 'a'), undefined);
    assert.equal((await sessionOf(fixture, true, 'b'))?.id, 'b');
    fixture.now += hourMs;
    assert.equal(await consoleSessions.end(tenant, hashOf('late')), false);
  });

  test('list: newest first, without those that have ended', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    for (const id of ['a', 'b', 'c']) {
      await store.consoleSessions.begin(newSession(tenant, id));
      fixture.now += minuteMs;
    }
    await store.consoleSessions.end(tenant, hashOf('b'));
    assert.deepEqual(await idsOf(store, tenant), ['c', 'a']);
    fixture.now = start + hourMs;
    assert.deepEqual(await idsOf(store, tenant), ['c']);
  });

  test('endMany: ends one session by its id, or all of a tenant', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    await consoleSessions.begin(newSession(other.id, 'foreign'));
    await consoleSessions.begin(newSession(tenant, 'old'));
    fixture.now += hourMs;
    for (const id of ['a', 'b', 'c']) await consoleSessions.begin(newSession(tenant, id));
    assert.equal(await consoleSessions.endMany(tenant, { id: 'foreign' }), 0);
    assert.equal(await consoleSessions.endMany(tenant, { id: 'b' }), 1);
    assert.deepEqual((await idsOf(store, tenant)).toSorted(), ['a', 'c']);
    assert.equal(await consoleSessions.endMany(tenant, 'all'), 2);
    assert.equal(await consoleSessions.endMany(tenant, 'all'), 0);
    fixture.now = start;
    assert.deepEqual(await idsOf(store, other.id), ['foreign']);
  });

  test('endMany: all of a tenant includes codes that are not used', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    for (const each of [tenant, other.id]) {
      const code = { tenant: each, codeHash: hashOf('code'), role: 'operator' } as const;
      await consoleSessions.addCode(code);
    }
    assert.equal(await consoleSessions.endMany(tenant, { id: 'a' }), 0);
    assert.equal(await consoleSessions.endMany(tenant, 'all'), 0);
    assert.equal(await consoleSessions.redeem(tenant, hashOf('code'), redeemedAs('a')), undefined);
    assert.ok(await consoleSessions.redeem(other.id, hashOf('code'), redeemedAs('b')));
  });

  test('end, endMany: a session from when the clock was ahead does not come back', async (t) => {
    const fixture = await createFixture(engine, t);
    const { tenant } = fixture;
    const { consoleSessions } = fixture.store;
    const ahead = start + 24 * hourMs;
    fixture.now = ahead;
    for (const id of ['a', 'b', 'c']) await consoleSessions.begin(newSession(tenant, id));
    fixture.now = start;
    assert.equal(await consoleSessions.end(tenant, hashOf('a')), false);
    assert.equal(await consoleSessions.endMany(tenant, { id: 'b' }), 0);
    fixture.now = ahead;
    assert.deepEqual(await idsOf(fixture.store, tenant), ['c']);
    fixture.now = start;
    assert.equal(await consoleSessions.endMany(tenant, 'all'), 0);
    fixture.now = ahead;
    assert.deepEqual(await idsOf(fixture.store, tenant), []);
  });

  test('recording: an entry for each session that begins or ends, and none otherwise', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const sessions = (id: string) =>
      store.recording(newEntry(tenant, { type: 'ssa', description: id })).consoleSessions;
    await sessions('code').addCode({ tenant, codeHash: hashOf('code'), role: 'viewer' });
    await sessions('redeemed').redeem(tenant, hashOf('code'), redeemedAs('a'));
    await sessions('used').redeem(tenant, hashOf('code'), redeemedAs('b'));
    await sessions('begun').begin(newSession(tenant, 'c'));
    await sessions('ended').end(tenant, hashOf('c'));
    await sessions('ended before').end(tenant, hashOf('c'));
    await sessions('all').endMany(tenant, 'all');
    await sessions('none').endMany(tenant, 'all');
    const types = { types: ['ssa'] as const, after: undefined, take: 100 };
    const { items } = await store.auditLog.list(tenant, types);
    assert.deepEqual(items.map(({ description }) => description).toSorted(), [
      'all',
      'begun',
      'code',
      'ended',
      'redeemed',
    ]);
  });
}

function boundsContract(engine: Engine): void {
  test(
    'begin: of more than 1,000 open sessions of a tenant the oldest end',
    { tags: ['long'] },
    async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      const { consoleSessions } = store;
      const other = await addTenant(store, 'other');
      await consoleSessions.begin(newSession(other.id, 'foreign'));
      await consoleSessions.begin(newSession(tenant, 'first'));
      fixture.now += 1;
      for (let number = 1; number < consoleLimits.sessionsMax; number += 1) {
        const id = `ses_${String(number).padStart(4, '0')}.`;
        await consoleSessions.begin({ ...newSession(tenant, id), user: `user ${number}` });
      }
      assert.equal((await sessionOf(fixture, true, 'first'))?.id, 'first');
      fixture.now += 1;
      await consoleSessions.addCode({ tenant, codeHash: hashOf('code'), role: 'viewer' });
      await consoleSessions.redeem(tenant, hashOf('code'), redeemedAs('last'));
      const ids = await idsOf(store, tenant);
      assert.deepEqual([ids.length, ids[0]], [consoleLimits.sessionsMax, 'last']);
      assert.equal(await sessionOf(fixture, true, 'first'), undefined);
      assert.deepEqual(await idsOf(store, other.id), ['foreign']);
    },
  );

  test('begin: one person has at most 20 open sessions, and ends those of nobody else', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { consoleSessions } = store;
    const ofUser = (id: string, user: string): NewSession =>
      newSession(tenant, id, { user, mapping: 'main/groups:admins' });
    await consoleSessions.begin(ofUser('other', 'eve@example.com'));
    for (let number = 1; number <= consoleLimits.ofUserMax + 1; number += 1) {
      fixture.now += 1;
      await consoleSessions.begin(ofUser(`own ${number}`, 'ada@example.com'));
    }
    const ids = await idsOf(store, tenant);
    assert.equal(ids.length, consoleLimits.ofUserMax + 1);
    assert.deepEqual([ids.at(-2), ids.at(-1)], ['own 2', 'other']);
  });

  test('prune: removes what has ended of all tenants, and nothing else', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { consoleSessions } = store;
    const other = await addTenant(store, 'other');
    await consoleSessions.begin(newSession(tenant, 'a'));
    await consoleSessions.begin(newSession(other.id, 'b'));
    await consoleSessions.addCode({ tenant, codeHash: hashOf('code'), role: 'viewer' });
    fixture.now += 10 * minuteMs;
    assert.equal(await consoleSessions.prune({ take: 500 }), 1);
    assert.equal(await consoleSessions.prune({ take: 500 }), 0);
    await consoleSessions.begin(newSession(other.id, 'c'));
    fixture.now = start + hourMs;
    assert.equal(await consoleSessions.prune({ take: 1 }), 1);
    assert.equal(await consoleSessions.prune({ take: 500 }), 1);
    assert.equal(await consoleSessions.prune({ take: 500 }), 0);
    assert.deepEqual(await idsOf(store, other.id), ['c']);
  });
}

function sessionOf({ store, tenant }: Fixture, isUse: boolean, id = 'ses_1') {
  return store.consoleSessions.get(tenant, hashOf(id), isUse);
}

async function idsOf(store: Fixture['store'], tenant: number): Promise<string[]> {
  return (await store.consoleSessions.list(tenant)).map(({ id }) => id);
}
