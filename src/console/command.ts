import { wordOf } from '../core/stream-word.ts';
import type { ApiRequest } from './request.ts';

/** Returns a request as a curl command to an origin, with a token from the variable TOKEN. */
export function curlOf({ method, path, body }: ApiRequest, origin: string): string {
  const words = [
    'curl',
    ...(method === 'GET' ? [] : ['-X', method]),
    quoted(`${origin}/api/v2${path}`),
    '\\\n  -H "Authorization: Bearer $TOKEN"',
    ...(body === undefined
      ? []
      : [`\\\n  -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`]),
  ];
  return words.join(' ');
}

/** Returns a word as a shell reads it literally. */
export function quoted(word: string): string {
  return /^[\w./:@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns a stream as a command takes it. */
export function commandWord(stream: {
  readonly event_stream_id: string;
  readonly name: string;
}): string {
  return wordOf({ id: stream.event_stream_id, name: stream.name });
}
