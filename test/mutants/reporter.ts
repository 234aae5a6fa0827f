import type { TestEvent } from 'node:test/reporters';

/** How a test has ended. */
export interface TestEnd {
  readonly title: string;
  readonly passed: boolean;
}

/** For `node --test-reporter`: a line of JSON for each test that ended, suites left out. */
// The test runner takes the default export.
// oxlint-disable-next-line import/no-default-export
export default async function* endsOf(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { name: title, details, skip } = data;
    if (details.type === 'suite' || skip !== undefined || isFailureOfSubtests(data)) continue;
    const end: TestEnd = { title, passed: type === 'test:pass' };
    yield `${JSON.stringify(end)}\n`;
  }
}

function isFailureOfSubtests({ details }: { readonly details: object }): boolean {
  const error = 'error' in details ? (details.error as { failureType?: string }) : undefined;
  return error?.failureType === 'subtestsFailed';
}
