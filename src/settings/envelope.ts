import type { Setting } from '../core/setting.ts';
import { pattern } from '../core/value.ts';

/** Names in the envelope of each event. */
export const envelopeSettings = {
  serviceName: {
    variable: 'LEAT_SERVICE_NAME',
    parse: pattern('a letter and up to 31 of a-z, 0-9 and -', /^[a-z][a-z0-9-]{0,31}$/),
    fallback: 'leat',
    doc: 'source of events, user id provider, metric names',
  },
  attributePrefix: {
    variable: 'LEAT_ATTRIBUTE_PREFIX',
    parse: pattern('a letter and 1 to 9 of a-z and 0-9', /^[a-z][a-z0-9]{1,9}$/),
    fallback: 'svc',
    doc: 'prefix of the envelope attributes: svctenant, svcstream, svcpurpose',
  },
} as const satisfies Record<string, Setting>;
