import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { codeOf, StartRefused } from '../core/errors.ts';
import type { ProgressPoint } from './command.ts';
import { type CommandRequest, partsOf } from './wire.ts';

/** Receives the parts of a response. */
export interface ResponseHandler {
  progress(point: ProgressPoint): void;
  /** Receives a file of so many bytes. */
  file(bytes: number): { write(chunk: Uint8Array): Promise<void>; end(): Promise<void> };
  readonly signal: AbortSignal;
}

/**
 * Runs a command in the server that listens on a socket; returns its text, or `undefined` when no
 * server listens there. Throws `StartRefused` when the command was refused or cut off.
 */
export async function runOnServer(
  socketPath: string,
  command: CommandRequest,
  handler: ResponseHandler,
): Promise<string | undefined> {
  const response = await post(socketPath, command, handler.signal);
  if (response === undefined) return undefined;
  try {
    return await textOf(response, handler);
  } catch (error) {
    if (error instanceof StartRefused || handler.signal.aborted) throw error;
    throw new StartRefused(
      'The server ended before the command did: check its log, then run the command again.',
      { cause: error },
    );
  }
}

async function post(
  socketPath: string,
  command: CommandRequest,
  signal: AbortSignal,
): Promise<IncomingMessage | undefined> {
  const outgoing = request({
    socketPath,
    method: 'POST',
    path: '/command',
    headers: { 'content-type': 'application/json' },
    signal,
  });
  outgoing.end(JSON.stringify(command));
  try {
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    return response;
  } catch (error) {
    const code = codeOf(error);
    // The socket of a killed server.
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return undefined;
    if (code === 'EACCES') {
      throw new StartRefused(
        `${socketPath} belongs to another user: run this command as the user of the server.`,
        { cause: error },
      );
    }
    // The server ended after it accepted the connection: whether the command ran is unknown.
    if (code === 'ECONNRESET') throw new StartRefused(cutOff, { cause: error });
    throw error;
  }
}

const cutOff =
  'The server ended before it responded: start it, check what has changed, and run the command again.';

async function textOf(response: IncomingMessage, handler: ResponseHandler): Promise<string> {
  let file: ReturnType<ResponseHandler['file']> | undefined;
  let bytesLeft = 0;
  for await (const part of partsOf(response as AsyncIterable<Uint8Array>)) {
    if ('progress' in part) handler.progress(part.progress);
    else if ('text' in part) return part.text;
    else if ('refused' in part) throw new StartRefused(part.refused);
    else if ('failed' in part) {
      throw new StartRefused(`The server failed at this command: ${part.failed} See its log.`);
    } else if ('file' in part) {
      file = handler.file(part.file);
      bytesLeft = part.file;
    } else {
      await file?.write(part.bytes);
      bytesLeft -= part.bytes.length;
      if (bytesLeft === 0) await file?.end();
    }
  }
  throw new Error('The response has no end.');
}
