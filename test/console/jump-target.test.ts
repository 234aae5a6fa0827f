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
  [
    'cgr_42b868dff918947ed87c0b1c5d8d1586',
    '/console/access?q=cgr_42b868dff918947ed87c0b1c5d8d1586',
  ],
  [
    '40ca3d45530505b2a9ceb4165af2500e',
    '/console/access?tab=clients&q=40ca3d45530505b2a9ceb4165af2500e',
  ],
  ['auth0|6501', '/console/users/auth0%7C6501'],
  ['auth0|', '/console/streams?q=auth0%7C'],
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
