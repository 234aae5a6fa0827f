import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

/**
 * What was removed for good: files, and words of the sources. What comes back under another name is for
 * reviewers; this finds a merge that brings back the old one.
 */
const gonePaths = [
  'src/alerting/check-times.ts',
  'src/alerting/log-channel.ts',
  'src/alerting/webhook-channel.ts',
  'src/api/avatar.ts',
  'src/api/changes.ts',
  'src/api/event-content.ts',
  'src/api/http/paced-response.ts',
  'src/api/reference/document.ts',
  'src/auth/fetch-json.ts',
  'src/changes',
  'src/cli/credentials-option.ts',
  'src/cli/duration.ts',
  'src/cli/monitor-loop.ts',
  'src/cli/monitor-poll.ts',
  'src/cli/monitor-state.ts',
  'src/cli/monitor.ts',
  'src/cli/nearest.ts',
  'src/cli/redeliver-selection.ts',
  'src/cli/redelivery.ts',
  'src/cli/reopen.ts',
  'src/cli/retry-now.ts',
  'src/console/changes.ts',
  'src/console/not-found.tsx',
  'src/console/parts/dialog.tsx',
  'src/console/server-events.ts',
  'src/console/stream-received.tsx',
  'src/console/visible.ts',
  'src/core/changes.ts',
  'src/core/escapes.ts',
  'src/core/form-search.ts',
  'src/core/secret-forms.ts',
  'src/messages/plain-request.ts',
  'src/messages/text.ts',
  'src/operator/delete-tenant.ts',
  'src/operator/firewall-findings.ts',
  'src/operator/progress.ts',
  'src/program/changes.ts',
  'src/program/operator-deps.ts',
  'src/program/welcome.ts',
  'src/pull/connection-limit.ts',
  'src/pull/filter-groups.ts',
  'src/pull/page-cache.ts',
  'src/schemas/changes.ts',
  'src/settings/changes.ts',
  'src/upkeep/lag-action.ts',
];
const goneWords = [
  'addMonitorCommand',
  'BroadcastChannel',
  'createPulls',
  'createRecent',
  'createStatsRecorder',
  'createWatchers',
  'cursors_raised',
  'findForm',
  'followChanges',
  'leat monitor',
  'MinuteRecorder',
  'MonitorState',
  'navigator.locks',
  'NodePulls',
  'openTail',
  'readEscapes',
  'RecentValues',
  'redeliverEach',
  'redeliveryState',
  'searchTextOf',
  'SharedHint',
  'watchChanges',
];

const root = join(import.meta.dirname, '..');
const sources = globSync('src/**/*.{ts,tsx,sql}', { cwd: root }).map((path) => ({
  path,
  text: readFileSync(join(root, path), 'utf8'),
}));

describe('what is gone', () => {
  test('the sources are read', () => {
    assert.ok(sources.some(({ path }) => path === 'src/main.ts'));
  });

  for (const path of gonePaths) {
    test(`${path} is not there`, () => {
      assert.equal(existsSync(join(root, path)), false);
    });
  }

  for (const word of goneWords) {
    test(`no source has ${word}`, () => {
      const pattern = new RegExp(String.raw`\b${word}\b`);
      const found = sources.filter(({ text }) => pattern.test(text)).map(({ path }) => path);
      assert.deepEqual(found, []);
    });
  }
});
