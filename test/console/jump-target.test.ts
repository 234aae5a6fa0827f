import assert from 'node:assert/strict';
import { test } from 'node:test';
import { targetOf } from '../../src/console/jump-target.ts';

const targets: readonly (readonly [text: string, target: string | undefined])[] = [
  ['', undefined],
  ['est_MASi45ub7Qe4ZE36UT5G6c', '/console/streams/est_MASi45ub7Qe4ZE36UT5G6c'],
  ['evt_b8dLcukC7edhDQ7cn5d4gE', '/console/events/evt_b8dLcukC7edhDQ7cn5d4gE'],
  ['log_b8dLcukC7edhDQ7cn5d4gE', '/console/logs/log_b8dLcukC7edhDQ7cn5d4gE'],
  ['rdl_b8dLcukC7edhDQ7cn5d4gE', '/console/redeliveries/rdl_b8dLcukC7edhDQ7cn5d4gE'],
  ['cgr_b8dLcukC7edhDQ7cn5d4gE', '/console/access?q=cgr_b8dLcukC7edhDQ7cn5d4gE'],
  ['rol_0123456789abcdef', '/console/access?q=rol_0123456789abcdef'],
  ['auth0|6501', '/console/users?q=auth0%7C6501'],
  ['1c2f9d7e-8f5c-4f9b-9a53-8d1d0f5a2f10', '/console/events/1c2f9d7e-8f5c-4f9b-9a53-8d1d0f5a2f10'],
  ['crm', '/console/streams?q=crm'],
  ['est_short', '/console/streams?q=est_short'],
  ['../../evil?x=1#y', '/console/streams?q=..%2F..%2Fevil%3Fx%3D1%23y'],
];

for (const [text, target] of targets) {
  test(`the jump box leads from "${text}" to ${target ?? 'nothing'}`, () => {
    assert.equal(targetOf(text), target);
  });
}
