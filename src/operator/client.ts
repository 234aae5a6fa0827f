import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { codeOf, StartRefused } from '../core/errors.ts';
import type { ProgressPoint } from './command.ts';
import { type Ask, partsOf } from './wire.ts';

/** What the caller does with the parts of an answer. */
export interface Answering {
  progress(point: ProgressPoint): void;
  /** Receives the bytes of a file, whose number is known before. */
  file(bytes: number): { write(chunk: Uint8Array): Promise<void>; end(): Promise<void> };
  readonly signal: AbortSignal;
}

/**
 * Runs a command in the server behind a socket and returns its text; `undefined` when no server
 * listens there. Throws `StartRefused` when the command was refused or cut off.
 */
export async function askServer(
  socketPath: string,
  ask: Ask,
  answering: Answering,
): Promise<string | undefined> {
  const response = await post(socketPath, ask, answering.signal);
  if (response === undefined) return undefined;
  try {
    return await textOf(response, answering);
  } catch (error) {
    if (error instanceof StartRefused || answering.signal.aborted) throw error;
    throw new StartRefused(
      'The server ended before the command did: look at its log, then run the command again.',
      { cause: error },
    );
  }
}

async function post(
  socketPath: string,
  ask: Ask,
  signal: AbortSignal,
): Promise<IncomingMessage | undefined> {
  const outgoing = request({
    socketPath,
    method: 'POST',
    path: '/command',
    headers: { 'content-type': 'application/json' },
    signal,
  });
  outgoing.end(JSON.stringify(ask));
  try {
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    return response;
  } catch (error) {
    const code = codeOf(error);
    // A socket that a killed server left behind.
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return undefined;
    if (code === 'EACCES') {
      throw new StartRefused(
        `${socketPath} belongs to another user: run this command as the user of the server.`,
        { cause: error },
      );
    }
    // It ended between accepting the connection and answering: whether the command ran is unknown.
    if (code === 'ECONNRESET') throw new StartRefused(cutOff, { cause: error });
    throw error;
  }
}

const cutOff =
  'The server ended before it answered: start it, see what has changed, and run the command again.';

async function textOf(response: IncomingMessage, answering: Answering): Promise<string> {
  let file: ReturnType<Answering['file']> | undefined;
  let bytesLeft = 0;
  for await (const part of partsOf(response as AsyncIterable<Uint8Array>)) {
    if ('progress' in part) answering.progress(part.progress);
    else if ('text' in part) return part.text;
    else if ('refused' in part) throw new StartRefused(part.refused);
    else if ('failed' in part) {
      throw new StartRefused(`The server failed at this command: ${part.failed} Its log has more.`);
    } else if ('file' in part) {
      file = answering.file(part.file);
      bytesLeft = part.file;
    } else {
      await file?.write(part.bytes);
      bytesLeft -= part.bytes.length;
      if (bytesLeft === 0) await file?.end();
    }
  }
  throw new Error('The answer has no end.');
}
