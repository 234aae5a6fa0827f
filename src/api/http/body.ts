import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { MemoryShare } from './memory-pool.ts';
import type { BodyRule } from '../operation.ts';
import { depthMax, isTooDeep, sizeOf } from '../../core/json-parts.ts';
import { type Slices, yieldToEventLoop } from '../../core/slices.ts';
import {
  badBody,
  loneReason,
  type Problem,
  quoted,
  tooLarge,
  tooManyBodies,
  unsupportedMediaType,
} from './problem.ts';
import { bodyText } from './validation.ts';
import { type JsonPath, lossOf, readVerbatim } from '../../core/verbatim.ts';

/** A request body as sent; `bytes` is `undefined` without a body or with an empty one. */
export interface RawBody {
  /** In lower case, without parameters; empty when none was sent. */
  readonly mediaType: string;
  readonly bytes: Buffer | undefined;
}

/** The bucket that the bytes of a body count against. */
export interface BodyPayer {
  /** Takes the declared length off before the body is read. Throws 429. */
  admit(bytes: number): void;
  /** Takes off bytes of a body without a declared length as they are read. */
  spend(bytes: number): void;
}

/** The limits of a body, and what it counts against. */
export interface BodyBounds {
  /** Limit of this body. */
  readonly bytesMax: number;
  readonly payer?: BodyPayer | undefined;
  /** Memory for all bodies of its tenant; the caller releases it. */
  readonly share?: Pick<MemoryShare, 'take'> | undefined;
}

/**
 * Reads a body by its rule. Throws 415 for another media type, 413 for more than `bytesMax`, 429 when
 * the memory of its tenant is used up, and what the payer throws. An empty body counts as none,
 * whichever media type it has.
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
  const accepted = isAccepted(rule, mediaType, headers);
  // Whether a chunked body is empty is known after reading.
  if (!accepted && !chunked) throw unacceptedBody(rule, headers);
  if (Number(length ?? 0) > bytesMax) throw tooLarge('the body', bytesMax);
  payer?.admit(chunked ? 0 : Number(length));
  if (headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
  const onBytes = (count: number): boolean => {
    if (chunked) payer?.spend(count);
    return share?.take(count) ?? true;
  };
  const bytes = await collect(request, accepted ? bytesMax : 0, onBytes);
  if (bytes === undefined) {
    throw accepted ? tooLarge('the body', bytesMax) : unacceptedBody(rule, headers);
  }
  return { mediaType, bytes: bytes.length === 0 ? undefined : bytes };
}

function isAccepted(
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

/** Returns the 415 of a body that {@link isAccepted} refuses. */
function unacceptedBody(
  rule: Pick<BodyRule, 'mediaTypes'>,
  { 'content-type': type, 'content-encoding': coding = 'identity' }: IncomingMessage['headers'],
): Problem {
  if (coding.toLowerCase() !== 'identity') {
    return unsupportedMediaType(`Content-Encoding ${quoted(coding)}`, 'none');
  }
  const types = ['application/json', ...Object.keys(rule.mediaTypes ?? {})];
  return unsupportedMediaType(sentType(type), `${types.join(' or ')} in UTF-8`);
}

function sentType(header: string | undefined): string {
  if (header === undefined) return 'no Content-Type';
  return header.trim() === '' ? 'an empty Content-Type' : `Content-Type ${quoted(header)}`;
}

function mediaTypeOf(header: string | undefined): string {
  if (header === undefined) return '';
  const at = header.indexOf(';');
  return (at === -1 ? header : header.slice(0, at)).trim().toLowerCase();
}

/** After so many bytes reading yields to the event loop: a socket may have 2 MiB ready. */
const bytesWithoutYieldMax = 64 * 1024;

/**
 * Reads the whole body. Returns `undefined` when it is longer than `bytesMax`, rejects with 429 when
 * `onBytes` returns false; the rest of the body is then discarded.
 */
function collect(
  request: IncomingMessage,
  bytesMax: number,
  onBytes: (count: number) => boolean,
): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks = new Chunks();
    let length = 0;
    let isWhole = false;
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      const hasMemory = onBytes(chunk.length);
      if (length > bytesMax) end(() => resolve(undefined));
      else if (!hasMemory) end(() => reject(tooManyBodies()));
      else {
        chunks.add(chunk);
        if (length > bytesWithoutYieldMax) void pause();
      }
    };
    const pause = async (): Promise<void> => {
      request.pause();
      await yieldToEventLoop();
      request.resume();
    };
    // Nothing comes after the end but `close`, which has no effect then.
    const onEnd = (): void => {
      isWhole = true;
      resolve(chunks.joined());
    };
    const onClose = (): void => {
      if (!isWhole) end(() => reject(new ClientGone()));
    };
    const end = (settle: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      // The listener of errors stays, and with it what it refers to, while the connection is open.
      chunks.clear();
      request.resume();
      settle();
    };
    request.on('data', onData).on('end', onEnd).on('close', onClose);
    request.once('error', onClose);
  });
}

/** Smaller chunks are copied together: each takes some 400 bytes more than it has. */
const chunkKeptMin = 1024;
/** Length of a buffer of small chunks. */
const bufferBytes = 4096;

/** The chunks of a body. */
class Chunks {
  readonly #whole: Buffer[] = [];
  /** Buffer that the next small chunks are copied into. */
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
      this.#open = Buffer.allocUnsafeSlow(bufferBytes);
    }
    this.#used += chunk.copy(this.#open, this.#used);
  }

  joined(): Buffer {
    this.#endOpen();
    const [first = Buffer.alloc(0), ...more] = this.#whole;
    return more.length === 0 ? first : Buffer.concat(this.#whole);
  }

  clear(): void {
    this.#whole.length = 0;
    this.#open = Buffer.alloc(0);
    this.#used = 0;
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

/** The client disconnected before its body was complete: there is nobody to respond to. */
export class ClientGone extends Error {
  readonly code = 'client_gone';
  override readonly name = 'ClientGone';
}

/** A body as text and as the parsed value. */
export interface ParsedBody {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Parses a body with any number of parts without a pause; of repeated fields the last one counts.
 * Throws 400 for anything that is not one JSON text in UTF-8. See {@link checkVerbatimDepth}.
 */
export function parseBody(bytes: Uint8Array): ParsedBody {
  const text = textOf(bytes);
  const value = parseJson(text);
  // The value may be less deep than the text: a later field of the same name wins.
  if (isDeeper(value, depthMax)) throw tooDeep();
  return { text, value };
}

/**
 * Throws 400 for a body whose text nests deeper than its value, of {@link parseBody}, shows. Reading
 * the text itself needs a stack of that depth.
 */
export function checkVerbatimDepth(bytes: Uint8Array): void {
  if (isTooDeep(bytes)) throw tooDeep();
}

/** How a body is parsed. */
export interface ParseRules {
  /** More arrays, objects and fields are 400: parsing a million of them takes half a second. */
  readonly partsMax: number;
  /** The fields of the body in which numbers stay as they were sent; elsewhere 400 if rounded. */
  readonly numbersKept?: readonly string[] | undefined;
}

/**
 * Parses a body. Throws 400 for anything that is not one JSON text in UTF-8, for one with repeated
 * fields, of which receivers take different ones (RFC 8259 section 4), and for numbers that would be
 * rounded. Returns numbers that stay as sent as `JSON.rawJSON` in `kept`, and as any other in `value`.
 */
export function* parseInSteps(
  bytes: Uint8Array,
  { partsMax, numbersKept = [] }: ParseRules,
): Slices<ParsedBody & { readonly kept: unknown }> {
  const text = textOf(bytes);
  const { parts, depth } = yield* sizeOf(bytes);
  if (parts > partsMax) {
    const reason = `More than ${partsMax} arrays, objects and members of objects`;
    throw badBody(reason, 'body', bodyText);
  }
  yield;
  const value = parseJson(text);
  if (depth > depthMax) throw tooDeep();
  yield;
  const verbatim = readVerbatim(text);
  const isKept = ([name]: JsonPath): boolean => numbersKept.includes(String(name));
  const loss = lossOf(verbatim, isKept);
  if (loss !== undefined) throw badBody(loss.reason, loss.path.join('.'), bodyText);
  return { text, value, kept: withFields(value, numbersKept, verbatim.value) };
}

/** Returns the object with these fields of another one. */
function withFields(value: unknown, names: readonly string[], other: unknown): unknown {
  if (names.length === 0 || !isRecord(value) || !isRecord(other)) return value;
  const present = names.filter((name) => Object.hasOwn(value, name));
  return { ...value, ...Object.fromEntries(present.map((name) => [name, other[name]])) };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The reason why JSON that nests deeper than `depthMax` is refused. */
export const depthReason = `Nested deeper than ${depthMax} levels`;

function tooDeep(): Problem {
  return badBody(depthReason, 'body', bodyText);
}

function textOf(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw badBody('Not valid UTF-8', 'body', bodyText);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

/** RFC 8259 section 8.1: senders must not add one. */
export const bomReason =
  'Not valid JSON: it begins with a byte order mark (U+FEFF), send it without';

/** V8 parses without recursion, so depth is safe here. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badBody(text.startsWith('\uFEFF') ? bomReason : 'Not valid JSON', 'body', bodyText);
  }
}

/** Rejects texts that are not well-formed Unicode, which the store cannot return unchanged. */
export function refuseLoneSurrogates({ text, value }: ParsedBody): void {
  // `JSON.stringify` writes `\\udXXX` for lone surrogates only, apart from escaped backslashes.
  const suspicious = /\\u[dD][89a-fA-F]/.test(text);
  if (suspicious && /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(JSON.stringify(value))) {
    throw badBody(loneReason, 'body', bodyText);
  }
}

/**
 * Whether arrays and objects nest deeper than `levels`. It reads the parsed value, which has far
 * fewer parts than the text has characters, and stops at that depth.
 */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeper(item, levels - 1));
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name in fields) {
    if (isDeeper(fields[name], levels - 1)) return true;
  }
  return false;
}
