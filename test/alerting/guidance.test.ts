import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { alertBody } from '../../src/alerting/alert-body.ts';
import type { StreamAlert } from '../../src/alerting/alert.ts';
import { guidanceOf } from '../../src/alerting/guidance.ts';
import { errorCode } from '../../src/schemas/failures.ts';
import { causeOption } from '../../src/cli/cause.ts';
import type { ErrorCode } from '../../src/core/error-code.ts';
import { alertExamples, exampleAlert } from '../helpers/alerts.ts';

const url = 'https://leat.example.com/';
const { stream } = exampleAlert;

for (const [kind, { alert, path, command }] of Object.entries(alertExamples(stream))) {
  test(`an alert of the kind ${kind} has a cause, a link and a next command`, () => {
    const { cause, link, next_command: next } = alertBody(alert, url);
    assert.equal(alert.kind, kind);
    assert.match(cause.meaning, /^[A-Z][^\n]+\.$/);
    assert.equal(link, url + path);
    assert.equal(next, command);
  });
}

describe('the guidance of an alert without codes', () => {
  test('an alert that an older version has stored has a cause and a command', () => {
    const old: StreamAlert = { ...exampleAlert, kind: 'threshold_near', causes: undefined };
    assert.deepEqual(guidanceOf(old, url), {
      cause: {
        meaning: 'The failures have no known cause, or are not open any more.',
        codes: [],
      },
      link: `${url}console/failures?stream=${stream.id}`,
      next_command: 'leat failures --stream crm',
    });
  });

  test('failures that are not listed by their code are counted', () => {
    const alert = { ...exampleAlert, causes: { codes: [], others: 3 } };
    assert.equal(guidanceOf(alert, url).cause.other_failures, 3);
  });
});

test('a receiver responds with any status: the next command has a cause that the program accepts', () => {
  const { pattern } = errorCode as unknown as { readonly pattern: string };
  const accepted = new RegExp(pattern);
  for (let status = 100; status < 1000; status += 1) {
    const code: ErrorCode = `http_${status}`;
    const causes = { codes: [{ code, count: 1 }], others: 0 };
    const alert: StreamAlert = { ...exampleAlert, kind: 'threshold_near', causes };
    const { cause, next_command: next } = guidanceOf(alert, url);
    assert.match(cause.meaning, /^[A-Z].+\.$/);
    assert.match(next, /--cause http_[0-9]{3} --dry-run$/);
    assert.deepEqual(causeOption(code), [code]);
    assert.match(code, accepted);
  }
});

describe('the name of a stream in the next command', () => {
  test(
    'random names and ids: the next command has only words without meaning for a shell',
    { tags: ['long'] },
    () => {
      const text = fc.string({ unit: 'binary' });
      fc.assert(
        fc.property(text, text, (name, id) => {
          for (const { alert } of Object.values(alertExamples(stream))) {
            const about = alert.stream === undefined ? {} : { stream: { id, name } };
            const { link, next_command: next } = guidanceOf({ ...alert, ...about }, url);
            assert.match(next, /^leat [\w.-]+( [\w.-]*)*$/);
            assert.match(link, /^https:\/\/leat\.example\.com\/[\w./?=%!'()*~-]*$/);
          }
        }),
      );
    },
  );
});
