import { systemClock, systemRandom } from '../src/clock.ts';
import { makeBody } from '../src/core/envelope.ts';
import { makeId } from '../src/core/ids.ts';
import { makeSecret } from '../src/core/sign.ts';
import type { NewEvent } from '../src/core/types.ts';
import { openStore } from '../src/store/open.ts';
import type { Store } from '../src/store/port.ts';
import * as program from '../test/helpers/leat.ts';
import { makePlace, secretKey, type Place } from '../test/helpers/leat.ts';

export { makePlace, type Place };

const tenant = 1;

/** Opens the store of a place without a server, for filling it by direct commands. */
export async function withStore<T>(place: Place, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore({
    location: { engine: 'sqlite', path: place.file },
    secretKey,
    random: systemRandom,
    clock: systemClock,
  });
  try {
    if ((await store.tenants.list()).length === 0) {
      await store.tenants.create({ name: 'main', domain: 'localhost' }, systemClock.now());
    }
    return await work(store);
  } finally {
    await store.close();
  }
}

/** An enabled stream for `types` that posts to a port of this machine. */
export async function addStream(
  store: Store,
  port: number,
  options: { name: string; types?: readonly string[]; status?: 'enabled' | 'disabled' },
): Promise<string> {
  const now = systemClock.now();
  const answer = await store.streams.create(
    {
      tenant,
      id: makeId('est_', now, systemRandom),
      name: options.name,
      status: options.status ?? 'enabled',
      types: options.types ?? ['order.paid'],
      destination: {
        type: 'webhook',
        endpoint: `http://127.0.0.1:${port}/`,
        authorization: { method: 'bearer', token: 'token-of-the-bench' },
      },
      signingSecrets: [{ secret: makeSecret(systemRandom), createdAt: now, expiresAt: undefined }],
      createdAt: now,
      updatedAt: now,
    },
    { streamsMax: 100_000 },
  );
  if ('refused' in answer) throw new Error(answer.refused);
  return answer.created.id;
}

/** What a shop might publish: an envelope of about 400 bytes. */
export function makeEvent(seq = 0): NewEvent {
  const now = systemClock.now();
  const id = makeId('evt_', now, systemRandom);
  const body = makeBody({
    id,
    type: 'order.paid',
    time: now,
    data: orderData(seq),
    tenantName: 'main',
    service: 'leat',
    prefix: 'svc',
  });
  return { id, chosen: false, type: 'order.paid', time: now, body };
}

export function orderData(seq: number): Record<string, unknown> {
  return {
    object: {
      seq,
      order_id: '65e1a0b2c3d4e5f60718293a',
      customer: { name: 'Ada Lovelace', email: 'ada@example.com' },
      total: { amount: 4200, currency: 'EUR' },
      items: [{ sku: 'book-1', quantity: 2 }],
    },
  };
}

export async function fill(
  store: Store,
  count: number,
  progress: (text: string) => void,
): Promise<void> {
  const chunk = 1000;
  for (let done = 0; done < count; done += chunk) {
    const events = Array.from({ length: Math.min(chunk, count - done) }, () => makeEvent());
    await store.log.append(tenant, events, systemClock.now());
    if (done % 50_000 === 0) progress(`filling the log: ${done} of ${count}`);
  }
}

/** The real server, with what a benchmark sets besides. */
export async function startLeat(
  place: Place,
  settings: Record<string, string> = {},
): Promise<Running> {
  const leat = await program.startLeat(place, {
    LEAT_PUBLISH_LIMIT_PER_SECOND: '100000000',
    LEAT_LOG_LEVEL: 'error',
    ...settings,
  });
  return { port: leat.port, pid: leat.child.pid ?? 0, token: leat.token, end: leat.kill };
}

export interface Running {
  readonly port: number;
  readonly pid: number;
  readonly token: string;
  end(): Promise<void>;
}
