/**
 * Returns the trace to forward for the headers of a request: its `traceparent`, and after a blank its
 * `tracestate` where that is valid; `undefined` when the `traceparent` is missing or invalid (W3C Trace
 * Context, sections 3.2 and 3.3). A later version of the format is rewritten as version 00, which receivers
 * understand.
 */
export function traceOf(header: string | undefined, state?: string): string | undefined {
  const parent = parentOf(header);
  const members = parent === undefined || state === undefined ? '' : membersOf(state).join(',');
  return members === '' ? parent : `${parent} ${members}`;
}

/** Returns the headers of a trace that {@link traceOf} has returned. */
export function traceHeaders(trace: string): readonly string[] {
  const end = trace.indexOf(' ');
  if (end < 0) return ['traceparent', trace];
  return ['traceparent', trace.slice(0, end), 'tracestate', trace.slice(end + 1)];
}

function parentOf(header: string | undefined): string | undefined {
  const match = header === undefined ? null : traceparent.exec(header);
  if (match === null) return undefined;
  const [, version = '', trace = '', parent = '', flags = '', more] = match;
  if (version === 'ff' || /^0+$/.test(trace) || /^0+$/.test(parent)) return undefined;
  if (version === '00') return more === undefined ? header : undefined;
  const sampled = (Number.parseInt(flags, 16) & 1) === 1;
  return `00-${trace}-${parent}-${sampled ? '01' : '00'}`;
}

const traceparent = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/**
 * Returns the list members to forward; none when one is invalid, a key is there twice, or there are more than
 * 32. Of a list that is too long, members of more than 128 characters go first, then the last ones.
 */
function membersOf(state: string): readonly string[] {
  const members = state.split(',').map((text) => text.replace(/^[ \t]+|[ \t]+$/g, ''));
  const present = members.filter((text) => text !== '');
  const keys = new Set(present.map((text) => text.slice(0, text.indexOf('='))));
  const isValid = present.every((text) => member.test(text)) && keys.size === present.length;
  if (!isValid || present.length > membersMax) return [];
  const isShort = (list: readonly string[]): boolean => list.join(',').length <= lengthMax;
  let kept = isShort(present) ? present : present.filter(({ length }) => length <= longMember);
  while (!isShort(kept)) kept = kept.slice(0, -1);
  return kept;
}

/** A key and a value; the value ends with no blank, as those around a member do not belong to it. */
const member =
  /^[a-z\d][a-z\d_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

const membersMax = 32;
const longMember = 128;
/** Section 3.3.1.5: vendors pass on at least so many characters. */
const lengthMax = 512;
