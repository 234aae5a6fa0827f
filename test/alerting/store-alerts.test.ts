import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertText } from '../../src/alerting/alert.ts';
import { storeAlerts } from '../../src/alerting/store-alerts.ts';

test('a store that went back: one alert for each tenant whose log ends earlier than before', () => {
  const alerts = storeAlerts({
    generation: 3,
    heads: [
      { tenant: 1, before: 120, now: 100 },
      { tenant: 2, before: 7, now: 7 },
      { tenant: 3, before: 7, now: 9 },
    ],
  });
  assert.equal(alerts.length, 1);
  const [alert] = alerts;
  assert.ok(alert);
  assert.deepEqual(alert.fields, { head_before: 120, head_now: 100 });
  assert.equal(alert.tenant, 1);
  assert.equal(alert.key, 'store_went_back 3');
  const text = alertText({ ...alert, tenant: 'main', at: 0 });
  assert.match(text, /the log ends at event 100 instead of 120/);
});
