import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  inspectedBy,
  inspectorEndpointOf,
  isInspectorOf,
  isInspectorOrigin,
} from '../../src/core/inspector.ts';

describe('inspectedBy', () => {
  const inspectors: readonly (readonly [endpoint: string, whose: string])[] = [
    ['https://new.inspector.invalid/', 'new'],
    ['https://est_MASi45ub7Qe4ZE36UT5G6c.inspector.invalid/', 'est_masi45ub7qe4ze36ut5g6c'],
    ['https://EST_A.INSPECTOR.invalid/hook?x=1', 'est_a'],
    ['https://est_a.inspector.invalid./', 'est_a'],
    ['https://est_a.inspector.invalid:8443/', 'est_a'],
    ['http://est_a.inspector.invalid/', 'est_a'],
    ['https://a.b.inspector.invalid/', 'a.b'],
    ['https://inspector.invalid/', ''],
    ['https://x.%69nspector.invalid/', 'x'],
    ['https://x.ｉnspector.invalid/', 'x'],
  ];
  for (const [endpoint, whose] of inspectors) {
    test(`inspectedBy: ${endpoint} is the inspector of '${whose}'`, () => {
      assert.equal(inspectedBy(endpoint), whose);
    });
  }

  for (const endpoint of [
    'https://hooks.example.com/',
    'https://inspector.invalid.example.com/',
    'https://xinspector.invalid/',
    'https://example.com/inspector.invalid/',
    'https://example.invalid/',
    'nothing',
  ]) {
    test(`inspectedBy: ${endpoint} is no inspector`, () => {
      assert.equal(inspectedBy(endpoint), undefined);
    });
  }
});

describe('the origin of an inspector', () => {
  const id = 'est_MASi45ub7Qe4ZE36UT5G6c';

  test('the origin of an endpoint is the inspector of its stream and of no other', () => {
    const { origin } = new URL(inspectorEndpointOf(id));
    assert.equal(isInspectorOrigin(origin), true);
    assert.equal(isInspectorOf(origin, id), true);
    assert.equal(isInspectorOf(origin, 'est_MASi45ub7Qe4ZE36UT5G6d'), false);
  });

  test('the origin of another endpoint is no inspector', () => {
    assert.equal(isInspectorOrigin('https://hooks.example.com'), false);
    assert.equal(isInspectorOf('https://hooks.example.com', id), false);
  });
});
