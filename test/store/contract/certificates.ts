import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ClientCertificate, Destination, Stream } from '../../../src/core/types.ts';
import { dayMs } from '../../../src/core/units.ts';
import { rotate } from '../../helpers/secrets.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, type Fixture, newStream, start } from './fixture.ts';

/** Client certificates of streams, and what upkeep reads of them. */
export function certificatesContract(engine: Engine): void {
  describe(`${engine.name}: client certificates of streams`, () => storedContract(engine));
  describe(`${engine.name}: upkeep.expiringCertificates`, () => expiringContract(engine));
}

function certificateUntil(expiresAt: number): ClientCertificate {
  return {
    certificate: '-----BEGIN CERTIFICATE-----\nä𝄞\n-----END CERTIFICATE-----\n',
    privateKey: 'a "private" key',
    expiresAt,
  };
}

function destinationWith(clientCertificate: ClientCertificate | undefined): Destination {
  const { destination } = newStream(0, start);
  return clientCertificate === undefined ? destination : { ...destination, clientCertificate };
}

async function change(fixture: Fixture, stream: Stream, fields: Partial<Stream>): Promise<void> {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, ...fields },
  }));
  assert.ok('updated' in result);
}

function storedContract(engine: Engine): void {
  test('a client certificate is read as it was written, by get, list and the owner', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const destination = destinationWith(certificateUntil(start + dayMs));
    const stream = await fixture.addStream({ destination });
    assert.deepEqual(stream.destination, destination);
    assert.deepEqual((await store.streams.get(tenant, stream.id))?.destination, destination);
    assert.deepEqual((await fixture.own(stream)).stream.destination, destination);
    const { items } = await store.streams.list(tenant, { after: undefined, take: 10 });
    assert.deepEqual(
      items.map((item) => item.destination),
      [destination],
    );
  });

  test('an update adds, replaces and removes a client certificate', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    for (const certificate of [certificateUntil(start), certificateUntil(start + 1), undefined]) {
      const destination = destinationWith(certificate);
      await change(fixture, stream, { destination });
      assert.deepEqual((await store.streams.get(tenant, stream.id))?.destination, destination);
    }
  });

  test('secrets that are sealed again keep the client certificate and when it expires', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const destination = destinationWith(certificateUntil(start + dayMs));
    const stream = await fixture.addStream({ destination });
    const key = store.secrets.addKey(Buffer.alloc(32, 7));
    assert.ok((await rotate(store.secrets, key)).values > 0);
    assert.deepEqual((await store.streams.get(tenant, stream.id))?.destination, destination);
    assert.deepEqual(
      (await expiring(fixture)).map(({ expiresAt }) => expiresAt),
      [start + dayMs],
    );
  });
}

const warningMs = 14 * dayMs;

function expiring({ store }: Fixture) {
  return store.upkeep.expiringCertificates({ withinMs: warningMs, take: 10 });
}

function expiringContract(engine: Engine): void {
  test('expiringCertificates: returns those that expire within the time, the first to expire first', async (t) => {
    const fixture = await createFixture(engine, t);
    const other = await addTenant(fixture.store, 'other');
    const at = [start + warningMs, start - 1, start + warningMs + 1, undefined];
    const streams = [];
    for (const [index, expiresAt] of at.entries()) {
      const certificate = expiresAt === undefined ? undefined : certificateUntil(expiresAt);
      const destination = destinationWith(certificate);
      streams.push(await fixture.addStream({ destination, name: `stream ${index}` }));
    }
    const destination = destinationWith(certificateUntil(start));
    const theirs = newStream(other.id, start, { destination, name: 'theirs' });
    await fixture.store.streams.create(theirs, { streamsMax: 9 });
    const { tenant } = fixture;
    assert.deepEqual(await expiring(fixture), [
      {
        tenant,
        stream: streams[1]?.id,
        name: 'stream 1',
        expiresAt: start - 1,
        leftMs: -1,
      },
      { tenant: other.id, stream: theirs.id, name: 'theirs', expiresAt: start, leftMs: 0 },
      {
        tenant,
        stream: streams[0]?.id,
        name: 'stream 0',
        expiresAt: start + warningMs,
        leftMs: warningMs,
      },
    ]);
    const { upkeep } = fixture.store;
    const first = await upkeep.expiringCertificates({ withinMs: warningMs, take: 1 });
    assert.deepEqual(
      first.map(({ name }) => name),
      ['stream 1'],
    );
  });

  test('expiringCertificates: returns a certificate until it is recorded as near, and again once it has expired', async (t) => {
    const fixture = await createFixture(engine, t);
    const { upkeep } = fixture.store;
    const destination = destinationWith(certificateUntil(start + dayMs));
    await fixture.addStream({ destination });
    const [near] = await expiring(fixture);
    assert.ok(near);
    assert.deepEqual(await expiring(fixture), [near]);
    await upkeep.noteCertificate(near, 'near');
    assert.deepEqual(await expiring(fixture), []);
    fixture.now = start + dayMs;
    const [expired] = await expiring(fixture);
    assert.deepEqual(expired, { ...near, leftMs: 0 });
    assert.ok(expired);
    await upkeep.noteCertificate(expired, 'expired');
    assert.deepEqual(await expiring(fixture), []);
    // A clock that is set back reports nothing again, nor does a late record of the first report.
    await upkeep.noteCertificate(near, 'near');
    fixture.now = start;
    assert.deepEqual(await expiring(fixture), []);
    fixture.now = start + 2 * dayMs;
    assert.deepEqual(await expiring(fixture), []);
  });

  test('expiringCertificates: a replaced certificate counts as not reported, another change keeps the record', async (t) => {
    const fixture = await createFixture(engine, t);
    const { upkeep } = fixture.store;
    const stream = await fixture.addStream({
      destination: destinationWith(certificateUntil(start + dayMs)),
    });
    const [near] = await expiring(fixture);
    assert.ok(near);
    await upkeep.noteCertificate(near, 'near');
    await change(fixture, stream, { name: 'renamed', status: 'disabled' });
    assert.deepEqual(await expiring(fixture), []);
    const renewed = certificateUntil(start + 2 * dayMs);
    await change(fixture, stream, { destination: destinationWith(renewed) });
    assert.deepEqual(
      (await expiring(fixture)).map(({ name, expiresAt }) => [name, expiresAt]),
      [['renamed', renewed.expiresAt]],
    );
    // The report of the former certificate says nothing of the new one.
    await upkeep.noteCertificate(near, 'near');
    assert.equal((await expiring(fixture)).length, 1);
    await change(fixture, stream, { destination: destinationWith(undefined) });
    assert.deepEqual(await expiring(fixture), []);
  });

  test('expiringCertificates: leaves out a stream that was deleted', async (t) => {
    const fixture = await createFixture(engine, t);
    const destination = destinationWith(certificateUntil(start));
    const { id } = await fixture.addStream({ destination });
    const [found] = await expiring(fixture);
    assert.ok(found);
    await fixture.store.streams.delete(fixture.tenant, id);
    assert.deepEqual(await expiring(fixture), []);
    await fixture.store.upkeep.noteCertificate(found, 'expired');
  });
}
