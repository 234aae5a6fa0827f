import { printable } from '../core/setting.ts';
import { CommandFailed, exitCodes } from './errors.ts';

/**
 * Decodes UTF-8 without its byte order mark, which editors of Windows write. Throws {@link CommandFailed}
 * for other bytes, such as the UTF-16 of its shells.
 *
 * @param source where the bytes are from, for the message
 */
export function utf8Text(bytes: Uint8Array, source: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    const message = `${printable(source)} is not UTF-8: convert it, for example with iconv.`;
    throw new CommandFailed(exitCodes.usage, message, { cause: error });
  }
}
