import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { MemoryShare } from './memory-pool.ts';
import type { BodyRule } from '../operation.ts';
import { sizeOf } from '../../core/json-parts.ts';
import { runSync, type Slices, yieldToEventLoop } from '../../core/slices.ts';
import { badBody, tooLarge, tooManyBodies, unsupportedMediaType } from './problem.ts';
import { bodyText } from './validation.ts';

/** A request body as it came: `undefined` when there is none, or an empty one. */
export interface RawBody {
  /** In lower case, without parameters; empty when none was sent. */
  readonly mediaType: string;
  readonly bytes: Buffer | undefined;
}

/** Whoever pays for the bytes of a body. */
export interface BodyPayer {
  /** Takes off the length of a body before it is read. Throws 429. */
  admit(bytes: number): void;
  /** Takes off what is read of a body whose length nobody has said. */
  spend(bytes: number): void;
}

/** What bounds and pays for a body. */
export interface BodyBounds {
  /** Of this body alone. */
  readonly bytesMax: number;
  readonly payer?: BodyPayer | undefined;
  /** Of its owner's bodies together; it stays taken when the body is read. */
  readonly share?: Pick<MemoryShare, 'take'> | undefined;
}

/**
 * Reads a body by its rule. Throws 415 for another media type, 413 for more than `bytesMax`, 429 where
 * there is no room for it, and what the payer throws; an empty body counts as none whatever its type.
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  rule: Pick<BodyRule, 'mediaTypes'>,
  { bytesMax, payer, share }: BodyBounds,
): Promise<RawBody> {
  const { headers } = request;
  const mediaType = mediaTypeOf(headers['content-type']);
  const length = headers['content-length'];
  const chunked = headers['transfer-encoding'] !== undefined;
  if (!chunked && (length === undefined || length === '0')) return { mediaType, bytes: undefined };
  const wanted = isWanted(rule, mediaType, headers);
  // Only reading tells whether a chunked body is empty.
  if (!wanted && !chunked) throw unsupportedMediaType();
  if (Number(length ?? 0) > bytesMax) throw tooLarge();
  payer?.admit(chunked ? 0 : Number(length));
  if (headers.expect !== undefined) response.writeContinue();
  const onBytes = (count: number): boolean => {
    if (chunked) payer?.spend(count);
    return share?.take(count) ?? true;
  };
  const bytes = await collect(request, wanted ? bytesMax : 0, onBytes);
  if (bytes === undefined) throw wanted ? tooLarge() : unsupportedMediaType();
  return { mediaType, bytes: bytes.length === 0 ? undefined : bytes };
}

function isWanted(
  rule: Pick<BodyRule, 'mediaTypes'>,
  mediaType: string,
  headers: IncomingMessage['headers'],
): boolean {
  if (mediaType !== 'application/json' && !Object.hasOwn(rule.mediaTypes ?? {}, mediaType)) {
    return false;
  }
  const encoding = headers['content-encoding'] ?? 'identity';
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(headers['content-type'] ?? '')?.[1];
  return encoding.toLowerCase() === 'identity' && /^utf-?8$/i.test(charset ?? 'utf-8');
}

function mediaTypeOf(header: string | undefined): string {
  if (header === undefined) return '';
  const at = header.indexOf(';');
  return (at === -1 ? header : header.slice(0, at)).trim().toLowerCase();
}

/** What is more of a body takes turns with everything else: a socket may have 2 MiB ready to be read. */
const bytesOfTurnMax = 64 * 1024;

/**
 * The whole body; `undefined` when it is longer, 429 when `onBytes` refuses more of it. What then
 * still comes is let go by unread.
 */
function collect(
  request: IncomingMessage,
  bytesMax: number,
  onBytes: (count: number) => boolean,
): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const pieces = new Pieces();
    let length = 0;
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      const hasRoom = onBytes(chunk.length);
      if (length > bytesMax) end(() => resolve(undefined));
      else if (!hasRoom) end(() => reject(tooManyBodies()));
      else {
        pieces.add(chunk);
        if (length > bytesOfTurnMax) void takeTurn();
      }
    };
    const takeTurn = async (): Promise<void> => {
      request.pause();
      await yieldToEventLoop();
      request.resume();
    };
    const onEnd = (): void => end(() => resolve(pieces.joined()));
    const onClose = (): void => end(() => reject(new ClientGone()));
    const end = (settle: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      request.resume();
      settle();
    };
    request.on('data', onData).on('end', onEnd).on('close', onClose);
    request.once('error', onClose);
  });
}

/** A smaller chunk is copied: it takes some 400 bytes more than it has, and a chunk may have one. */
const chunkKeptMin = 1024;
/** Small chunks are put together in pieces of this length. */
const pieceBytes = 4096;

/** A body as it comes. */
class Pieces {
  readonly #whole: Buffer[] = [];
  /** Holds small chunks, and has room for more of them. */
  #open = Buffer.alloc(0);
  #used = 0;

  add(chunk: Buffer): void {
    // Most bodies are one chunk.
    if (chunk.length >= chunkKeptMin || this.#isEmpty()) {
      this.#endOpen();
      this.#whole.push(chunk);
      return;
    }
    if (this.#used + chunk.length > this.#open.length) {
      this.#endOpen();
      this.#open = Buffer.allocUnsafeSlow(pieceBytes);
    }
    this.#used += chunk.copy(this.#open, this.#used);
  }

  joined(): Buffer {
    this.#endOpen();
    const [first = Buffer.alloc(0), ...more] = this.#whole;
    return more.length === 0 ? first : Buffer.concat(this.#whole);
  }

  #isEmpty(): boolean {
    return this.#whole.length === 0 && this.#used === 0;
  }

  #endOpen(): void {
    if (this.#used === 0) return;
    this.#whole.push(this.#open.subarray(0, this.#used));
    this.#open = this.#open.subarray(this.#used);
    this.#used = 0;
  }
}

/** The client left before its body was complete: nobody is there to be answered. */
export class ClientGone extends Error {
  readonly code = 'client_gone';
  override readonly name = 'ClientGone';
}

/** Deeper than any document has use for, and far from what recursion over it could not bear. */
const depthMax = 100;

/** A body as text, and as the value that a schema can judge. */
export interface ParsedBody {
  readonly text: string;
  readonly value: unknown;
}

/** Parses a body, of any number of parts, without a pause. See {@link parseInSteps}. */
export function parseBody(bytes: Uint8Array): ParsedBody {
  return runSync(parseInSteps(bytes, Infinity));
}

/**
 * Parses a body. Throws 400 for anything that is not one JSON text in UTF-8, and for one of more
 * arrays, objects and members than `partsMax`: a million of them are parsed in half a second.
 */
export function* parseInSteps(bytes: Uint8Array, partsMax: number): Slices<ParsedBody> {
  if (!isUtf8(bytes)) throw badBody('Not valid UTF-8', 'body', bodyText);
  const size = bytes.length > partsMax ? yield* sizeOf(bytes) : undefined;
  if (size !== undefined && size.parts > partsMax) {
    const reason = `More than ${partsMax} arrays, objects and members of objects`;
    throw badBody(reason, 'body', bodyText);
  }
  yield;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  const value = parseJson(text);
  // What the text has of depth the value may not: a later member of the same name wins.
  const isShallow = size !== undefined && size.depth <= depthMax;
  if (!isShallow && isDeeper(value, depthMax)) {
    throw badBody(`Nested deeper than ${depthMax} levels`, 'body', bodyText);
  }
  return { text, value };
}

/** The engine parses without recursion: depth is no danger to it. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badBody('Not valid JSON', 'body', bodyText);
  }
}

/** Refuses texts that are no Unicode, which the store could not give back as they were. */
export function refuseLoneSurrogates({ text, value }: ParsedBody): void {
  // Stringifying escapes lone surrogates and nothing else so, but for escaped backslashes.
  const suspicious = /\\u[dD][89a-fA-F]/.test(text);
  if (suspicious && /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(JSON.stringify(value))) {
    throw badBody('Not well-formed Unicode: a lone surrogate', 'body', bodyText);
  }
}

/**
 * Whether arrays and objects nest deeper than so many levels. It looks at the parsed value, which
 * has far fewer parts than the text has characters, and goes no deeper than it has to.
 */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeper(item, levels - 1));
  const members = value as Readonly<Record<string, unknown>>;
  for (const name in members) {
    if (isDeeper(members[name], levels - 1)) return true;
  }
  return false;
}
