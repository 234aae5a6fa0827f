import { yieldToEventLoop } from '../../core/slices.ts';

/** A value that is JSON text already, in consecutive pieces. */
export class JsonText {
  readonly pieces: readonly string[];

  constructor(...pieces: readonly string[]) {
    this.pieces = pieces;
  }
}

/**
 * Serializes the body of a response like `JSON.stringify`: to one text where it is short, else to
 * pieces. Long lists are written item by item and yield to the event loop: a page of 8 MiB takes some
 * 40 ms.
 *
 * @param body consists of plain objects and arrays; a list is the body itself or a field of it. A
 *   {@link JsonText} is the body itself or an item of the list
 */
export function slicedJson(body: unknown): string | Promise<string | readonly Buffer[]> {
  if (body instanceof JsonText) return written((out) => writeItem(out, body));
  if (isLongList(body)) return written((out) => writeList(out, body));
  const list = Object.entries(Object(body) as object).find(([, value]) => isLongList(value));
  if (list === undefined) return JSON.stringify(body);
  return written((out) => writeAround(out, body as object, list[0]));
}

function isLongList(value: unknown): value is unknown[] {
  return Array.isArray(value) && (value.length > 1 || value[0] instanceof JsonText);
}

/** Writes the list of an object in slices, the other fields at once. */
async function writeAround(out: Writer, body: object, list: string): Promise<void> {
  let before = '{';
  for (const [name, value] of Object.entries(body)) {
    const text = name === list ? '' : JSON.stringify(value);
    if (text === undefined) continue;
    await out.write(`${before}${JSON.stringify(name)}:${text}`);
    if (name === list) await writeList(out, value as unknown[]);
    before = ',';
  }
  await out.write('}');
}

async function writeList(out: Writer, items: readonly unknown[]): Promise<void> {
  let before = '[';
  for (const item of items) {
    await out.write(before);
    await writeItem(out, item);
    before = ',';
  }
  await out.write(']');
}

async function writeItem(out: Writer, item: unknown): Promise<void> {
  if (!(item instanceof JsonText)) return out.write(JSON.stringify(item) ?? 'null');
  for (const piece of item.pieces) await out.write(piece);
}

/** Characters of a piece; after each one the writer yields. */
const pieceLength = 64 * 1024;

interface Writer {
  write(text: string): Promise<void>;
}

async function written(write: (out: Writer) => Promise<void>): Promise<string | readonly Buffer[]> {
  const pieces: Buffer[] = [];
  let texts: string[] = [];
  let length = 0;
  await write({
    write: async (text) => {
      texts.push(text);
      length += text.length;
      if (length < pieceLength) return;
      pieces.push(Buffer.from(texts.join('')));
      texts = [];
      length = 0;
      await yieldToEventLoop();
    },
  });
  if (pieces.length === 0) return texts.join('');
  pieces.push(Buffer.from(texts.join('')));
  return pieces;
}
