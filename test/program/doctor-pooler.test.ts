import assert from 'node:assert/strict';
import { test } from 'node:test';
import { doctor, textsOf } from '../helpers/doctor.ts';
import { createTempStore } from '../helpers/leat.ts';
import { startPooler } from '../helpers/pooler.ts';
import { query, sharedPostgres, throughPort } from '../helpers/postgres.ts';
import { alterSessions } from '../helpers/stranger.ts';

test(
  'leat doctor names what other clients have set in the sessions of a pooler',
  { tags: ['long'] },
  async (t) => {
    const server = await sharedPostgres();
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    const direct = await server.createDatabase();
    const pooler = await startPooler({ port: server.port, serverConnections: 3 });
    t.after(() => pooler.close());
    const examine = async (store: string, check: string): Promise<string[]> => {
      const { findings } = await doctor(tempStore, { LEAT_STORE: store });
      return textsOf(findings, check);
    };
    const url = throughPort(direct, pooler.port);
    assert.deepEqual(await examine(direct, 'pooler'), []);
    assert.deepEqual(await examine(url, 'pooler'), ['ok: no other client alters its sessions']);
    await alterSessions(url, 3, `set search_path = ''; set bytea_output = escape`);
    assert.deepEqual(await examine(url, 'pooler'), [
      'warn: another client left bytea_output, search_path in its sessions',
    ]);

    await query(
      server.url(),
      `create database doctor_latin1 encoding 'LATIN1' locale 'C' template template0`,
    );
    const [refused] = await examine(server.url('doctor_latin1'), 'store');
    assert.match(refused ?? '', /^bad: .*its encoding is LATIN1/);
  },
);
