import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { changedFrame, Changes, streamsMax } from '../../src/core/changes.ts';

const named = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `est_${index}`);

function changesOf(streams: readonly string[]): Changes {
  const changes = new Changes();
  for (const stream of streams) changes.addStream(stream);
  return changes;
}

describe('Changes', () => {
  test('more streams than one message names become all, and stay all', () => {
    const changes = changesOf(named(streamsMax));
    assert.deepEqual(changes.streams, named(streamsMax));
    changes.addStream('est_0');
    assert.deepEqual(changes.streams, named(streamsMax), 'the same one again');
    changes.addStream('est_new');
    changes.addStream('est_0');
    changes.addOverview();
    assert.equal(changes.streams, 'all');
  });

  test('merge: all absorbs streams, and nothing changes nothing', () => {
    const changes = new Changes();
    changes.merge(new Changes());
    assert.equal(changes.isEmpty, true);
    changes.merge({ isEmpty: false, streams: [] });
    assert.deepEqual([changes.isEmpty, changes.streams], [false, []]);
    changes.merge(changesOf(['est_1', 'est_2']));
    changes.merge(changesOf(['est_2']));
    assert.deepEqual(changes.streams, ['est_1', 'est_2']);
    changes.merge({ isEmpty: false, streams: 'all' });
    assert.equal(changes.streams, 'all');
    changes.clear();
    assert.deepEqual([changes.isEmpty, changes.streams], [true, []]);
  });

  test('changedFrame: one block of server-sent events with the streams, or all', () => {
    assert.equal(
      changedFrame({ streams: ['est_1'] }),
      'event: changed\ndata: {"streams":["est_1"],"overview":true}\n\n',
    );
    assert.equal(
      changedFrame({ streams: 'all' }),
      'event: changed\ndata: {"streams":[],"all":true,"overview":true}\n\n',
    );
  });
});
