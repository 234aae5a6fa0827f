import type { Clock } from '../core/clock.ts';
import { printable } from '../core/setting.ts';
import {
  hasAsymmetric,
  type PublicKeys,
  publicKeysOf,
  type SignatureCheck,
  verify,
} from '../core/verify.ts';
import type { ApiClient } from './http/api-client.ts';

/** Verifies the signatures of a received webhook. */
export type CheckSignature = (
  request: { readonly headers: Readonly<Record<string, string | string[] | undefined>> },
  body: Uint8Array,
) => Promise<SignatureCheck>;

export interface SignatureCheckDeps {
  /** `whsec_…` */
  readonly secret: string;
  /** The server of the tenant whose keys may have signed; absent where that is not known. */
  readonly api?: Pick<ApiClient, 'url' | 'readPublic'> | undefined;
  readonly clock: Pick<Clock, 'now' | 'elapsedMs'>;
  readonly note: (text: string) => void;
}

/** Creates the check of `v1` with a secret, and of `v1a` with the keys that the tenant publishes. */
export function createSignatureCheck(deps: SignatureCheckDeps): CheckSignature {
  const { secret, api, clock, note } = deps;
  const keysFor = api === undefined ? undefined : createKeySet({ ...deps, api });
  let isNoted = false;
  return async ({ headers }, body) => {
    const header = (name: string): string | undefined => {
      const value = headers[name];
      return typeof value === 'string' ? value : undefined;
    };
    const sent = {
      id: header('webhook-id'),
      timestamp: header('webhook-timestamp'),
      signature: header('webhook-signature'),
      keyId: header('webhook-key-id'),
    };
    const keyId = hasAsymmetric(sent.signature) ? sent.keyId : undefined;
    const publicKeys = keyId === undefined ? undefined : await keysFor?.(keyId);
    const seconds = Math.floor(clock.now() / 1000);
    const check = verify({ secrets: [secret], publicKeys }, sent, body, seconds);
    if (check === 'unchecked' && keysFor === undefined && !isNoted) {
      isNoted = true;
      note('A request has no signature v1. Only --stream checks v1a, with the keys of the tenant.');
    }
    return check;
  };
}

/** The key set may be cached for this long. */
const freshMs = 300_000;
/** Unknown keys are looked for once in this time: anyone can name one. */
const readEveryMs = 60_000;

/** Returns a function that returns the published keys, read again where the given one is unknown. */
function createKeySet({
  api,
  clock,
  note,
}: Required<Pick<SignatureCheckDeps, 'clock' | 'note'>> & {
  readonly api: NonNullable<SignatureCheckDeps['api']>;
}): (keyId: string) => Promise<PublicKeys | undefined> {
  const path = '/.well-known/webhook-keys.json';
  let known: PublicKeys | undefined;
  let readAtMs = -Infinity;
  let reading: Promise<PublicKeys | undefined> | undefined;
  const read = async (): Promise<PublicKeys | undefined> => {
    try {
      known = publicKeysOf(await api.readPublic(path));
      if (known !== undefined) readAtMs = clock.elapsedMs();
      else note(`${api.url}${path} is no key set: v1a is not checked.`);
    } catch (error) {
      known = undefined;
      const reason = error instanceof Error ? printable(error.message) : String(error);
      note(`The keys at ${api.url}${path} cannot be read, so v1a is not checked: ${reason}`);
    }
    return known;
  };
  return (keyId) => {
    const ageMs = clock.elapsedMs() - readAtMs;
    const isFresh = ageMs < (known?.has(keyId) === true ? freshMs : readEveryMs);
    if (known !== undefined && isFresh) return Promise.resolve(known);
    reading ??= read().finally(() => (reading = undefined));
    return reading;
  };
}
