/**
 * Returns the `traceparent` to forward for the header of a request; `undefined` when it is missing or
 * invalid (W3C Trace Context, section 3.2). A later version of the format is rewritten as version 00,
 * which receivers understand.
 */
export function traceOf(header: string | undefined): string | undefined {
  const match = header === undefined ? null : traceparent.exec(header);
  if (match === null) return undefined;
  const [, version = '', trace = '', parent = '', flags = '', more] = match;
  if (version === 'ff' || /^0+$/.test(trace) || /^0+$/.test(parent)) return undefined;
  if (version === '00') return more === undefined ? header : undefined;
  const sampled = (Number.parseInt(flags, 16) & 1) === 1;
  return `00-${trace}-${parent}-${sampled ? '01' : '00'}`;
}

const traceparent = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
