import { invalidRequest, type TokenError } from './token-error.ts';

/** The parameters of a token request. One without a value is not there (RFC 6749 section 3.2). */
export type Parameters = ReadonlyMap<string, string>;

/** Parameters that are understood; all others are ignored (RFC 6749 section 3.2). */
const known = [
  'grant_type',
  'audience',
  'scope',
  'client_id',
  'client_secret',
  'client_assertion',
  'client_assertion_type',
] as const;

/** Name of a parameter that is understood. */
export type ParameterName = (typeof known)[number];

/** Reads the body of a token request, a form or JSON. One that comes twice is refused. */
export function readParameters(
  contentType: string | undefined,
  body: string,
): Parameters | TokenError {
  const mediaType = contentType?.split(';')[0]?.trim().toLowerCase();
  if (mediaType === 'application/x-www-form-urlencoded') return readForm(body);
  if (mediaType === 'application/json') return readJson(body);
  return invalidRequest(mediaTypeProblem);
}

/** What is said of a body of another media type. */
export const mediaTypeProblem =
  'The body must be application/x-www-form-urlencoded or application/json';

function readForm(body: string): Parameters | TokenError {
  const form = new URLSearchParams(body);
  return once([...form.keys()]) ?? keep((name) => form.get(name));
}

function readJson(body: string): Parameters | TokenError {
  const object = objectOf(body === '' ? '{}' : body);
  if (object === undefined) return invalidRequest('The body is not a JSON object');
  const wrong = known.find((name) => !['string', 'undefined'].includes(typeof object[name]));
  if (wrong !== undefined) return invalidRequest(`Parameter is not a string: ${wrong}`);
  return once(memberNames(body)) ?? keep((name) => object[name]);
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
 * The member names of a JSON object, each as often as it is written: `JSON.parse` would answer
 * the last one, another parser in front of Leat perhaps the first. The text is valid JSON.
 */
function memberNames(json: string): string[] {
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

function once(names: readonly string[]): TokenError | undefined {
  const repeated = known.find((name) => names.filter((other) => other === name).length > 1);
  return repeated === undefined ? undefined : invalidRequest(`Repeated parameter: ${repeated}`);
}

function keep(valueOf: (name: ParameterName) => unknown): Parameters {
  const parameters = new Map<string, string>();
  for (const name of known) {
    const value = valueOf(name);
    if (typeof value === 'string' && value !== '') parameters.set(name, value);
  }
  return parameters;
}
