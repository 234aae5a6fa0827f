/**
 * `npm run test:faults -- [faults] [requests] [postgres|sqlite]`: publishes at a Leat on each store while that meets that many
 * faults, one after the other, until at least so many requests were sent. Records every response and compares
 * with the log afterwards. Fails when an acknowledged event is missing, when one is stored although its 503 does
 * not say `unknown`, or when readiness and metric say something else than publishers meet.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createLedger } from '../test/helpers/publish-faults.ts';
import { createQuota } from '../test/helpers/quota.ts';
import { noSlowDisk } from '../test/helpers/slow-disk.ts';
import {
  type FaultyStore,
  lasting,
  startFaultyPostgres,
  startFaultySqlite,
} from '../test/helpers/store-faults.ts';

const quietMs = 16_000;
const faults = Number(process.argv[2] ?? 100);
const requests = Number(process.argv[3] ?? 50_000);

const named = process.argv[4];
const missing = noSlowDisk();
if (missing !== false) console.log(`SQLite is left out: ${missing}.`);
const stores = { postgres: startFaultyPostgres, sqlite: startFaultySqlite };
const played = Object.entries(stores).filter(
  ([name]) => (name !== 'sqlite' || missing === false) && (named ?? name) === name,
);
for (const [, start] of played) {
  const ends: (() => Promise<void>)[] = [];
  const store = await start({ after: (end) => void ends.push(end) });
  try {
    await play(store);
  } finally {
    for (const end of ends) await end();
  }
}

async function play(store: FaultyStore): Promise<void> {
  const ledger = createLedger();
  const ending = new AbortController();
  let during = 'before the first fault';
  const quota = createQuota();
  const publishing = ledger.publish(store.node, quota, ending.signal);
  const watching = ledger.watch(store.node, store.metricsPort, () => during, ending.signal);
  const kinds = Object.entries(store.faults);
  const counts: Record<string, number> = {};
  for (let number = 0; number < faults; number += 1) {
    quota.add(Math.ceil(requests / faults));
    await sleep(200);
    const [name, begin] = kinds[number % kinds.length] as (typeof kinds)[number];
    const round = Math.floor(number / kinds.length);
    const lastsMs = [lasting.shortMs, lasting.mediumMs, lasting.shortMs, lasting.longMs][round % 4];
    counts[name] = (counts[name] ?? 0) + 1;
    during = `${name} for ${lastsMs} ms`;
    await begin(lastsMs ?? 0);
    await sleep(800);
    // Once each kind was met: long enough that readiness is compared while publishers are served.
    if ((number + 1) % kinds.length === 0) await sleep(quietMs);
  }
  // The rest is published after the last fault.
  while (quota.left > 0) await sleep(200);
  ending.abort();
  await Promise.all([publishing, watching]);
  const result = ledger.result(await store.stored());
  console.log(store.name, JSON.stringify({ faults: counts, ...result }, undefined, 2));
  const isWrong =
    result.missing > 0 ||
    result.storedThoughRefused > 0 ||
    result.contradictions.length > 0 ||
    Object.keys(result.others).length > 0;
  if (isWrong) process.exitCode = 1;
}
