import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failuresOf, withoutChanges } from '../../tools/promises/compare.ts';
import { titlesIn } from '../../tools/promises/tests.ts';

const head = `# A comment.
topic: Monitor command :: leat monitor is gone.
topic: Tests of structure :: Another test shows the behaviour.
`;
const standing = [
  'command: leat monitor',
  'mutant: a lost event',
  'mutant: a lost lease',
  'setting: LEAT_PORT = 8080',
  'test: a -> b',
  'test: a lease ends',
  'test: a lease ends',
  'test: an event is sent',
];

interface Difference {
  readonly gone?: readonly string[];
  readonly added?: readonly string[];
  readonly lines?: readonly string[];
}

/** Returns the failures of a comparison, each with its second line alone where it has two. */
function compare({ gone = [], added = [], lines = [] }: Difference): string[] {
  const present = [...standing, ...added];
  for (const entry of gone) present.splice(present.indexOf(entry), 1);
  return failuresOf({ standing, present, changes: head + lines.join('\n') });
}

function assertFails(difference: Difference, ...expected: readonly RegExp[]): void {
  const failures = compare(difference);
  assert.equal(failures.length, expected.length, failures.join('\n'));
  for (const [index, pattern] of expected.entries()) assert.match(failures[index] ?? '', pattern);
}

describe('promises: what passes', () => {
  const passing: Record<string, Difference> = {
    'the same entries': {},
    'new entries without a line': { added: ['test: a new one', 'mutant: a new one'] },
    'an entry that is renamed': {
      gone: ['test: an event is sent'],
      added: ['test: each event is sent'],
      lines: ['test: an event is sent -> each event is sent'],
    },
    'an entry whose text has a separator': {
      gone: ['test: a -> b'],
      added: ['test: a -> c :: d'],
      lines: ['test: a -> b -> a -> c :: d'],
    },
    'an entry that is gone because of a topic': {
      gone: ['command: leat monitor'],
      lines: ['command: leat monitor :: Monitor command'],
    },
    'a test whose promise another one holds': {
      gone: ['test: an event is sent'],
      lines: ['test: an event is sent :: Tests of structure: a lease ends'],
    },
    'both of two equal entries with a line each': {
      gone: ['test: a lease ends', 'test: a lease ends'],
      added: ['test: every lease ends'],
      lines: [
        'test: a lease ends -> every lease ends',
        'test: a lease ends :: Tests of structure: every lease ends',
      ],
    },
  };
  for (const [title, difference] of Object.entries(passing)) {
    test(`promises: passes with ${title}`, () => {
      assert.deepEqual(compare(difference), []);
    });
  }
});

describe('promises: what fails', () => {
  test('promises: an entry that is gone without a line fails', () => {
    const gone = ['setting: LEAT_PORT = 8080'];
    assertFails({ gone }, /^setting: LEAT_PORT = 8080\n.*It is gone: add it/);
  });

  test('promises: each of several equal entries needs a line', () => {
    const gone = ['test: a lease ends', 'test: a lease ends'];
    const lines = ['test: a lease ends :: Tests of structure: an event is sent'];
    assertFails({ gone, lines }, /^test: a lease ends\n.*It is gone/);
  });

  test('promises: a rename to an entry that does not exist, has another kind or stood before fails', () => {
    const gone = ['test: an event is sent'];
    const rename = (text: string) => [`test: an event is sent -> ${text}`];
    assertFails({ gone, lines: rename('nothing') }, /"test: nothing" does not exist/);
    assertFails(
      { gone, lines: rename('a suite'), added: ['suite: a suite'] },
      /"test: a suite" does not exist/,
    );
    assertFails({ gone, lines: rename('a lease ends') }, /"test: a lease ends" stood before/);
  });

  test('promises: a topic that is not listed, or that has more text, fails', () => {
    const gone = ['command: leat monitor'];
    const because = (topic: string) => [`command: leat monitor :: ${topic}`];
    assertFails({ gone, lines: because('Weight') }, /No topic "Weight" is listed/);
    assertFails({ gone, lines: because('Monitor command: too') }, /Write ":: Monitor command"/);
  });

  test('promises: a test of structure names a test that exists, and is a test', () => {
    const because = (entry: string, title: string) => ({
      gone: [entry],
      lines: [`${entry} :: Tests of structure: ${title}`],
    });
    const sent = 'test: an event is sent';
    assertFails(because(sent, 'an event is sent'), /No test "an event is sent" exists/);
    assertFails(because(sent, ''), /No test "" exists/);
    assertFails(because('command: leat monitor', 'a lease ends'), /for tests and suites/);
  });

  test('promises: a line for an entry that still exists, never stood or has a line fails', () => {
    const line = 'command: leat monitor :: Monitor command';
    assertFails({ lines: [line] }, /still exists or has a line already/);
    assertFails({ gone: ['command: leat monitor'], lines: [line, line] }, /has a line already/);
    assertFails({ lines: ['test: unknown -> a lease ends'] }, /No such entry stood/);
    assertFails({ lines: ['no line at all'] }, /No such entry stood/);
  });

  test('promises: fewer mutants than before fail, also when the topic is right', () => {
    const gone = ['mutant: a lost lease'];
    const lines = ['mutant: a lost lease :: Monitor command'];
    assertFails({ gone, lines }, /There are 1 mutants, and there were 2/);
    assert.deepEqual(compare({ gone, lines, added: ['mutant: another one'] }), []);
  });
});

test('promises: writing them down removes the changes and keeps the head', () => {
  assert.equal(withoutChanges(`${head}command: leat monitor :: Monitor command\n`), head);
});

test('promises: the titles of a source are those of tests and suites, computed ones as their source', () => {
  const source = `
    // test('in a comment', () => {});
    describe('it\\'s a suite', { tags: ['long'] }, async () => {
      test("of \\u0061 kind", () => assert.ok(/a/.test('text')));
      for (const name of names) test(\`has \${name}\`, () => {});
      it(name, (t) => t.test('inside'));
    });
    const text = "test('in a text', () => {});";`;
  assert.deepEqual(titlesIn(source), [
    "suite: it's a suite",
    'test: of a kind',
    'test: has ${name}',
    'test: name',
    'test: inside',
  ]);
});
