import type { KillingTest, Mutant } from './mutant.ts';

const by = (file: string, title: string): KillingTest => ({ file: `test/${file}.test.ts`, title });

/** Mutants of filters, schedules, rates, signatures and access tokens of streams. */
export const optionMutants: readonly Mutant[] = [
  {
    name: 'a filter for which null is missing',
    file: 'core/filter-comparisons.ts',
    before: 'value !== undefined;',
    after: 'value !== undefined && value !== null;',
    killedBy: by('core/filter', 'null is a value'),
  },
  {
    name: 'a $not that decides as what it negates',
    file: 'core/filter-program.ts',
    before: 'addSteps(steps, node.not, ifFalse, ifTrue)',
    after: 'addSteps(steps, node.not, ifTrue, ifFalse)',
    killedBy: by('core/filter', 'a missing field matches only $ne, $nin, $not and $exists: false'),
  },
  {
    name: 'an $or of which all conditions have to match',
    file: 'core/filter-program.ts',
    before: 'node.any.reduceRight((next, part) => addSteps(steps, part, ifTrue, next), ifFalse)',
    after: 'node.any.reduceRight((next, part) => addSteps(steps, part, next, ifFalse), ifTrue)',
    killedBy: by('core/filter', 'all fields of a condition and one of $or have to match'),
  },
  {
    name: 'a filter that reads fields of prototypes',
    file: 'core/filter-fields.ts',
    before: 'Object.hasOwn(value, name) ? value[name] : undefined',
    after: 'value[name]',
    killedBy: by('core/filter', 'names of prototypes are names like others'),
  },
  {
    name: 'an evaluation that does not pause',
    file: 'core/filter-program.ts',
    before: 'while (at >= 0 && work.left > 0) {',
    after: 'while (at >= 0) {',
    killedBy: by(
      'core/filter',
      'an evaluation of much work pauses and has the result that it has without pauses',
    ),
  },
  {
    name: 'texts whose comparison is not counted as work',
    file: 'core/filter-comparisons.ts',
    before: 'Math.min(value.length, operand.length) / 3',
    after: '1',
    killedBy: by('core/filter', 'the work of an evaluation grows with the texts that it compares'),
  },
  {
    name: 'strings that are compared to their end',
    file: 'core/filter-values.ts',
    before: 'return text.length <= charactersRead ? text : text.slice(0, charactersRead);',
    after: 'return text;',
    killedBy: by('core/filter', 'strings are read up to 4,096 characters'),
  },
  {
    name: 'filters whose work of a turn has no bound',
    file: 'delivery/prefetch/event-filters.ts',
    before: 'const workOfTurn = 200_000;',
    after: 'const workOfTurn = Infinity;',
    killedBy: by(
      'delivery/filters',
      'filters of much work are evaluated over several turns, and every stream gets its event',
    ),
  },
  {
    name: 'a page that is filtered by the filter of now',
    file: 'delivery/prefetch/filtered-pages.ts',
    before: 'runner.filterOf(span.filter)',
    after: 'runner.filterOf(runner.stream.subscriptions.at(-1)?.filter)',
    killedBy: by(
      'delivery/filters',
      'a new filter applies from the next event on, also for a stream far behind',
    ),
  },
  {
    name: 'pages in memory that outlive what a stream is claimed or enabled with',
    file: 'delivery/prefetch/prefetch.ts',
    before: 'this.#filteredReader.shared.drop(runner.tenant);',
    after: '',
    killedBy: by(
      'delivery/prefetch/shared-pages',
      'a stream that is enabled again receives no event that was pruned meanwhile',
    ),
  },
  {
    name: 'a page in memory that is taken for one of another tenant',
    file: 'delivery/prefetch/shared-pages.ts',
    before: 'page.tenant === tenant && page.after <= after',
    after: 'page.after <= after',
    killedBy: by(
      'delivery/prefetch/shared-pages',
      'shared pages: tenants with the same offsets have their own pages',
    ),
  },
  {
    name: 'a change of the filter alone that is no change',
    file: 'core/subscription.ts',
    before: `one.types.every((type, index) => type === other.types[index]) &&
    one.filter === other.filter`,
    after: 'one.types.every((type, index) => type === other.types[index])',
    killedBy: by(
      'core/subscription',
      'selections with the same types and another filter are not the same',
    ),
  },
  {
    name: 'long waits that are the same for all events',
    file: 'core/retry-schedule.ts',
    before: 'spread * (2 * fractionOf(',
    after: '0 * (2 * fractionOf(',
    killedBy: by('core/retry-schedule', 'the waits of many events are spread over the whole width'),
  },
  {
    name: 'a cycle that goes on after 72 hours',
    file: 'store/rules/settlement.ts',
    before: 'now >= cycleEnd ||',
    after: '',
    killedBy: by(
      'delivery/schedules',
      'a cycle ends 72 h after its first attempt, with a last attempt then',
    ),
  },
  {
    name: 'a wait that is longer than the rest of its cycle',
    file: 'store/rules/settlement.ts',
    before: 'Math.min(now + outcome.delayMs, cycleEnd)',
    after: 'now + outcome.delayMs',
    killedBy: by(
      'delivery/schedules',
      'a cycle ends 72 h after its first attempt, with a last attempt then',
    ),
  },
  {
    name: 'a Retry-After of more than its bound',
    file: 'core/retry.ts',
    before: 'Math.min(retryAfterMs(retryAfter, now), retryAfterMaxMs)',
    after: 'retryAfterMs(retryAfter, now)',
    killedBy: by('core/retry', 'any value is a wait of 0 to 60 s'),
  },
  {
    name: 'a Retry-After of a minute at most, whatever the schedule',
    file: 'core/retry-schedule.ts',
    before: 'retryAfterMaxMs: Math.max(retryAfterMaxMs, ...delaysMs),',
    after: 'retryAfterMaxMs,',
    killedBy: by(
      'core/retry-schedule',
      'without retry_4xx a schedule has the default; Retry-After can request its longest wait',
    ),
  },
  {
    name: 'a delivery that waits by its schedule and cannot be redelivered',
    file: 'store/commands/redelivery.ts',
    before: `row.state === 'retrying' && (allHaveSchedule || hasSchedule(row))`,
    after: `row.state === 'parked' && (allHaveSchedule || hasSchedule(row))`,
    killedBy: by(
      'store/sqlite',
      'redeliver: a delivery that waits by a schedule of its stream is due now, and its cycle goes on',
    ),
  },
  {
    name: 'a burst of two seconds',
    file: 'delivery/rates.ts',
    before: 'const capacity = Math.max(1, perSecond);',
    after: 'const capacity = Math.max(1, 2 * perSecond);',
    killedBy: by(
      'delivery/schedules',
      'attempts of all kinds together keep to the rate, after one burst',
    ),
  },
  {
    name: 'a changed rate that applies to the next owner',
    file: 'delivery/rates.ts',
    before: 'if (known?.perSecond === perSecond) return known;',
    after: 'if (known !== undefined) return known;',
    killedBy: by('delivery/schedules', 'a changed rate applies at once'),
  },
  {
    name: 'a signature v1a that names no key',
    file: 'delivery/request.ts',
    before: `request.headers.push('webhook-key-id', key.kid);`,
    after: '',
    killedBy: by(
      'delivery/webhook-signatures',
      'webhook signatures: v1a has one signature, which the published key verifies',
    ),
  },
  {
    name: 'a signature v1a that any published key may have made',
    file: 'core/verify.ts',
    before: 'const key = keys.get(keyId);',
    after: 'const key = keys.get(keyId) ?? keys.values().next().value;',
    killedBy: by('core/verify', 'verify: an unknown key unless a v1 says more'),
  },
  {
    name: 'an access token that is not replaced after a 401',
    file: 'delivery/authorized-transport.ts',
    before: `result.kind !== 'response' || result.status !== 401`,
    after: `result.kind !== 'response' || result.status !== 0`,
    killedBy: by(
      'delivery/authorized-transport',
      'gets the request once more in the same attempt, with another token',
    ),
  },
  {
    name: 'an access token that is replaced at every 401',
    file: 'delivery/http/access-tokens.ts',
    before: 'nowMs - replacedMs < limits.replaceMs',
    after: 'nowMs < replacedMs',
    killedBy: by('delivery/http/access-tokens', 'is replaced at most once a minute'),
  },
  {
    name: 'a stretch that was filtered without a type of now and is taken over',
    file: 'store/rules/replay.ts',
    before: 'types.every((type) => filtered.types.includes(type)) &&',
    after: '',
    killedBy: by(
      'store/sqlite',
      'materialize: a stretch that was filtered without a type of now is filtered again',
    ),
  },
];
