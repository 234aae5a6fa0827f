import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firewallFindings } from '../../src/operator/doctor.ts';

test('firewall findings: a warning for each public address of the machine that is in no list', () => {
  const own = ['127.0.0.1', '10.0.0.7', 'fe80::1', '8.8.8.8', '8.8.8.8', '9.9.9.9', '1.1.1.1'];
  const lists = { egressAllow: ['9.9.9.9', '10.0.0.0/8'], egressDeny: ['1.1.1.0/24'] };
  assert.deepEqual(firewallFindings(own, lists), [
    {
      level: 'warn',
      check: 'firewall',
      said: 'webhooks may be sent to 8.8.8.8 of this machine, where its firewall does not see them',
      next: 'add 8.8.8.8 to LEAT_EGRESS_DENY, or to LEAT_EGRESS_ALLOW if receivers are there',
    },
  ]);
});
