import { invalidRequest, type TokenError } from './token-error.ts';

/** The parameters of a token request. One without a value counts as absent (RFC 6749 section 3.2). */
export type Parameters = ReadonlyMap<string, string>;

/** Known parameters; all others are ignored (RFC 6749 section 3.2). */
const known = [
  'grant_type',
  'audience',
  'resource',
  'scope',
  'client_id',
  'client_secret',
  'client_assertion',
  'client_assertion_type',
] as const;

/** Name of a known parameter. */
export type ParameterName = (typeof known)[number];

/** Reads the body of a token request, a form or JSON. Rejects repeated parameters. */
export function readParameters(
  contentType: string | undefined,
  body: string,
): Parameters | TokenError {
  const mediaType = contentType?.split(';')[0]?.trim().toLowerCase();
  // In a form it would be part of the name of the first parameter.
  if (body.startsWith('\uFEFF')) return invalidRequest(byteOrderMark);
  if (mediaType === 'application/x-www-form-urlencoded') return readForm(body);
  if (mediaType === 'application/json') return readJson(body);
  return invalidRequest(mediaTypeProblem);
}

/** Error description for a body of another media type. */
const mediaTypeProblem = 'The body must be application/x-www-form-urlencoded or application/json';

const byteOrderMark = 'The body begins with a byte order mark (U+FEFF), send it without';

function readForm(body: string): Parameters | TokenError {
  const form = new URLSearchParams(body);
  return rejectRepeated([...form.keys()]) ?? pickKnown((name) => form.get(name));
}

function readJson(body: string): Parameters | TokenError {
  const object = objectOf(body === '' ? '{}' : body);
  if (object === undefined) return invalidRequest('The body is not a JSON object');
  const wrong = known.find((name) => !['string', 'undefined'].includes(typeof object[name]));
  if (wrong !== undefined) return invalidRequest(`Parameter is not a string: ${wrong}`);
  return rejectRepeated(fieldNames(body)) ?? pickKnown((name) => object[name]);
}

function objectOf(body: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the field names of a JSON object, repeated ones included: `JSON.parse` takes the last of
 * them, a parser in front of Leat may take the first. The text must be valid JSON.
 */
function fieldNames(json: string): string[] {
  const names: string[] = [];
  let depth = 0;
  for (const [token, name] of json.matchAll(
    /("(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"|[[\]{}]/g,
  )) {
    if (name !== undefined && depth === 1) names.push(JSON.parse(name) as string);
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
  }
  return names;
}

function rejectRepeated(names: readonly string[]): TokenError | undefined {
  const repeated = known.find((name) => names.filter((other) => other === name).length > 1);
  return repeated === undefined ? undefined : invalidRequest(`Repeated parameter: ${repeated}`);
}

function pickKnown(valueOf: (name: ParameterName) => unknown): Parameters | TokenError {
  const parameters = new Map<string, string>();
  for (const name of known) {
    const value = valueOf(name);
    if (typeof value !== 'string' || value === '') continue;
    if (value.includes('\0')) {
      return invalidRequest(`Parameter has the character U+0000: ${name}`);
    }
    parameters.set(name, value);
  }
  return parameters;
}
