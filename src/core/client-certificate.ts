import { dayMs } from './units.ts';

/** A client certificate is reported this long before it expires, and again when it has expired. */
export const certificateWarningMs = 14 * dayMs;
