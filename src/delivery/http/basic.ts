import type { ClientCredentials } from '../../core/types.ts';

/** Returns the credentials of HTTP Basic as RFC 6749 section 2.3.1 has them: form-encoded first. */
export function basicOf({
  clientId,
  clientSecret,
}: Pick<ClientCredentials, 'clientId' | 'clientSecret'>): string {
  return Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64');
}

function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1);
}
