import { type Static, Type } from 'typebox';
import { closed, component, next, pageQuery, time } from './schema.ts';

/** The query of the skipped ranges of a stream. */
export const skippedQuery = closed(pageQuery);

const range = closed(
  {
    from: Type.String({ description: 'Offset after which the range begins' }),
    to: Type.String({ description: 'Offset of its last event' }),
    events: Type.Integer({ minimum: 0, description: 'Events of it that the event stream wanted' }),
    at_least: Type.Boolean({ description: 'Whether there may be more of them' }),
    reason: Type.Literal('resumed_latest', {
      description: 'It was enabled again with resume latest',
    }),
    date: time,
  },
  { description: 'A range of the event log that was not sent' },
);

/** A page of skipped ranges. */
export const skippedRanges = component(
  'SkippedRanges',
  'Ranges of the event log that an event stream passed over',
  { ranges: Type.Array(range, { description: 'Newest first' }), next },
);

export type SkippedRangeShown = Static<typeof range>;
export type SkippedRangesShown = Static<typeof skippedRanges>;
