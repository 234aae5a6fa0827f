/** Bytes of all carried fields of a resource as JSON. */
export const carriedBytesMax = 64 * 1024;

/** Why carried fields cannot be stored: what is wrong, and the field. */
export interface CarriedFault {
  readonly reason: string;
  readonly field: string;
}

/**
 * Returns the carried fields of a resource after a request, as JSON text; `undefined` without any. A
 * field that was sent replaces the former one, `null` removes it, and others stay.
 *
 * @param names are the only fields of `sent` that count
 */
export function carry(
  before: string | undefined,
  sent: object,
  names: readonly string[],
): { readonly json: string | undefined } | { readonly fault: CarriedFault } {
  const fields = new Map<string, unknown>(Object.entries(JSON.parse(before ?? '{}') as object));
  const values = new Map<string, unknown>(Object.entries(sent));
  const changed = names.filter((name) => values.get(name) !== undefined);
  for (const name of changed) {
    if (values.get(name) === null) fields.delete(name);
    else fields.set(name, values.get(name));
  }
  const json = fields.size === 0 ? undefined : JSON.stringify(Object.fromEntries(fields));
  const bytes = json === undefined ? 0 : new TextEncoder().encode(json).length;
  if (bytes > carriedBytesMax && changed.length > 0) {
    const reason = `Carried fields are too long together (${bytes} bytes), maximum ${carriedBytesMax}`;
    return { fault: { reason, field: changed[0] ?? '' } };
  }
  for (const name of changed) {
    const reason = faultOf(values.get(name), name === 'addons');
    if (reason !== undefined) return { fault: { reason, field: name } };
  }
  return { json };
}

/** Returns why a value may not be stored and returned: it is a secret. */
function faultOf(value: unknown, hasSecrets: boolean): string | undefined {
  if (typeof value === 'string') return isPrivateKey(value) ? privateKey : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, part] of Object.entries(value)) {
    const isSecret = hasSecrets && secretNames.has(name) && part !== null && part !== '';
    if (isSecret) return `A secret, which Leat does not store: ${name}`;
    const reason = faultOf(part, hasSecrets);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

const privateKey = 'A private key, which Leat does not store';

function isPrivateKey(text: string): boolean {
  return /-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text);
}

/** The fields of addons with passwords or keys of other services. */
const secretNames: ReadonlySet<string> = new Set([
  'masterkey',
  'password',
  'private_key',
  'privateKey',
  'sasKey',
  'secret',
  'servicePassword',
  'storageAccessKey',
]);
