/** The type of `text` in a binary array. */
const textOid = 25;

/**
 * Returns texts as one array value, to be bound as `text[]`. It is in the binary format: in the other one
 * both sides go through each text character by character, to quote it.
 */
export function textArray(values: readonly (string | null | undefined)[]): Uint8Array {
  const lengths = values.map((value) => (isText(value) ? Buffer.byteLength(value) : -1));
  const textBytes = lengths.reduce((sum, length) => sum + 4 + Math.max(0, length), 0);
  // An empty array has no dimensions, any other one here a length and a first index.
  const dimensions = values.length === 0 ? [] : [values.length, 1];
  const header = [dimensions.length / 2, lengths.includes(-1) ? 1 : 0, textOid, ...dimensions];
  const bytes = Buffer.allocUnsafe(header.length * 4 + textBytes);
  let end = 0;
  for (const field of header) end = bytes.writeInt32BE(field, end);
  for (const [index, value] of values.entries()) {
    end = bytes.writeInt32BE(lengths[index] ?? -1, end);
    if (isText(value)) end += bytes.write(value, end);
  }
  return bytes;
}

function isText(value: string | null | undefined): value is string {
  return typeof value === 'string';
}
