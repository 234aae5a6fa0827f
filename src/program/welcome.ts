import { codeMinutes } from '../operator/console.ts';
import type { Service } from './service.ts';

export interface WelcomeOptions {
  readonly messagesUrl: string;
  /** Audience of the message API. */
  readonly audience: string;
  /** A one-time link; absent where the output is no terminal. */
  readonly consoleLink: string | undefined;
}

/** Returns the text that `leat start` prints: the addresses and the first requests. */
export function welcomeText(
  version: string,
  { url, authorityFile, metricsUrl, consoleUrl, bootstrapped: { generated } }: Service,
  { messagesUrl, audience, consoleLink }: WelcomeOptions,
): string {
  const id = generated?.clientId ?? '<client id>';
  const metrics = metricsUrl === undefined ? '' : `\n  metrics          ${metricsUrl}`;
  const hint =
    consoleLink === undefined
      ? 'leat console prints a link that signs in'
      : `signs in once, within ${codeMinutes} minutes; leat console prints another link`;
  const curl = authorityFile === undefined ? 'curl' : `curl --cacert ${authorityFile}`;
  return `
Leat ${version} is up.
  console          ${consoleLink ?? consoleUrl}
                   ${hint}
  management API   ${url}/api/v2
  reference        ${url}/docs
  OpenAPI          ${url}/api/v2/openapi.json
  token endpoint   ${url}/oauth/token
  message API      ${messagesUrl}/api/messages/public${metrics}

The first requests; replace <…> by the id and the secret of the client:

  TOKEN=$(${curl} -s ${url}/oauth/token -d grant_type=client_credentials -d audience=/api/v2/ \\
    -d client_id=${id} -d client_secret=<secret> | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')

  ${curl} -X POST ${url}/api/v2/event-streams -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"name": "first",
      "subscriptions": [{"event_type": "user.created"}],
      "destination": {"type": "webhook", "configuration": {
        "webhook_endpoint": "https://new.inspector.invalid/",
        "webhook_authorization": {"method": "bearer", "token": "a token of yours"}}}}'

  ${curl} -X POST ${url}/api/v2/users -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"email": "ada@example.com",
      "password": "correct-horse-battery", "connection": "Username-Password-Authentication"}'

  ${curl} ${url}/api/v2/event-streams/<id of the stream>/received -H "Authorization: Bearer $TOKEN"

The endpoint is a receiver inside Leat, the inspector: nothing leaves this machine, and the last request
shows what it received.

The message API takes tokens of the audience ${audience};
the client messages-sample gets one that opens all three messages:

  curl ${messagesUrl}/api/messages/admin -H "Authorization: Bearer $TOKEN"

Ctrl-C ends it after the attempts in progress; a second Ctrl-C ends it immediately.`;
}
