/**
 * A process that opens a store and holds it: `node keeper.ts <LEAT_STORE> <key byte> [uid]`. It
 * prints `opening`, then `open`, or the line of a refused start with exit code 1 as `leat` does.
 * `fill` makes it append until the store refuses; the end of its input makes it close the store.
 */
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import { StartRefused } from '../../../src/core/errors.ts';
import type { NewEvent } from '../../../src/core/types.ts';
import { storeLocation } from '../../../src/core/value.ts';
import { systemClock } from '../../../src/clock.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/port/store.ts';

const [location = '', keyByte = '', uid] = process.argv.slice(2);
// All modules are loaded: the other user need not be able to read them.
if (uid !== undefined) becomeUser(Number(uid));
print('opening');
try {
  await keep(await open());
} catch (error) {
  if (!(error instanceof StartRefused)) throw error;
  print(error.message);
  process.exitCode = 1;
}

function becomeUser(id: number): void {
  process.setgroups?.([]);
  process.setgid?.(id);
  process.setuid?.(id);
}

async function open(): Promise<Store> {
  const parsed = storeLocation(location);
  if ('problem' in parsed) throw new StartRefused(parsed.problem);
  const secretKeys = [Buffer.alloc(32, Number(keyByte))];
  return openStore({ location: parsed.value, secretKeys, random: randomBytes, clock: systemClock });
}

async function keep(store: Store): Promise<void> {
  const [tenant] = await store.tenants.list();
  const id = tenant?.id ?? (await addTenant(store));
  print(`open, ${await store.log.head(id)} events`);
  for await (const line of createInterface(process.stdin)) {
    if (line === 'append') print(await append(store, id));
    if (line === 'fill') print(await fill(store, id));
  }
  await store.close();
}

async function addTenant(store: Store): Promise<number> {
  const result = await store.tenants.create({ name: 'main', domain: 'localhost' }, 1);
  if ('refused' in result) throw new Error(result.refused);
  return result.created.id;
}

async function append(store: Store, tenant: number): Promise<string> {
  const [appended] = await store.log.append(tenant, [newEvent()]);
  return `appended ${appended?.offset}`;
}

async function fill(store: Store, tenant: number): Promise<string> {
  for (;;) {
    try {
      await append(store, tenant);
    } catch (error) {
      return `${String(error)} after ${await store.log.head(tenant)}`;
    }
  }
}

function newEvent(): NewEvent {
  const id = `evt_${randomBytes(11).toString('hex')}`;
  return { id, chosen: false, type: 'test', time: 1, body: 'x'.repeat(10_000) };
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
