import { printable } from '../../core/setting.ts';
import { usageError } from '../errors.ts';
import { isThisMachine } from './localhost.ts';

/**
 * Returns the origin of a server's address, without a path of the API at its end. Throws a usage
 * error for anything else.
 */
export function serverOrigin(text: string): string {
  const url = URL.parse(text);
  const bare = url !== null && url.username === '' && url.password === '' && url.search === '';
  const known = bare && /^\/(?:api\/v2\/?)?$/.test(url.pathname) && url.hash === '';
  if (known && (url.protocol === 'https:' || url.protocol === 'http:')) return url.origin;
  throw usageError(
    `"${printable(text.replace(/\/\/[^/]*@/, '//***@'))}" is not the address of a server, for example http://localhost:8080`,
  );
}

/** Returns the audience of the management API of a server (docs/http-api.md#audiences). */
export function audienceOf(origin: string): string {
  return `https://${new URL(origin).host}/api/v2/`;
}

/** Warns when a secret would cross a network unencrypted. */
export function warnOfPlainHttp(url: string, note: (text: string) => void): void {
  if (!url.startsWith('http:') || isThisMachine(new URL(url).hostname)) return;
  note(`Warning: ${url} is not encrypted; the secret can be read on the way.`);
}
