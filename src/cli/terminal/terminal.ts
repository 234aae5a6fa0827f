import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import { styleText } from 'node:util';
import { CommandFailed, exitCodes } from '../errors.ts';
import { terminalSafe } from '../json.ts';
import { readLines } from '../read-lines.ts';
import { utf8Text } from '../utf8-text.ts';

/** The standard streams of a command. */
export interface Streams {
  readonly stdin: Readable & { readonly isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  readonly stdout: Screen;
  readonly stderr: Screen;
}

type Screen = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** Output and input of a command. The caller makes texts of the server printable. */
export interface Terminal {
  /** Whether a user can be asked. */
  readonly interactive: boolean;
  /** Columns of the standard output; `undefined` when that is not a terminal. */
  readonly width: number | undefined;
  /** Colours a text for the standard output, unless colours are off. */
  readonly paint: Paint;
  /** Prints a line of the result. */
  print(text: string): void;
  /** Prints a hint or a warning to the standard error, for programs as JSON. */
  note(text: string): void;
  /**
   * Shows a line on the standard error that the next line replaces; `undefined` removes it. Does
   * nothing without a terminal.
   */
  progress(text: string | undefined): void;
  /** Columns for {@link progress}. */
  readonly progressWidth: number;
  ask(question: string): Promise<string>;
  /** Asks for a secret without showing what is typed. */
  askSecret(question: string): Promise<string>;
  /** Reads the whole standard input. */
  readInput(): Promise<string>;
  /** Reads the standard input by lines, without line ends. */
  inputLines(): AsyncIterable<string>;
}

export type Paint = (format: Format, text: string) => string;
export type Format = Parameters<typeof styleText>[0];

/** Leaves a text uncoloured. */
export const plain: Paint = (_format, text) => text;

/** Creates a terminal on the streams of the program. */
export function createTerminal(
  { stdin, stdout, stderr }: Streams,
  { colour, json = false }: { readonly colour: boolean; readonly json?: boolean },
): Terminal {
  let shown = false;
  const progress = (text: string | undefined): void => {
    if (stderr.isTTY !== true) return;
    if (text === undefined && !shown) return;
    // Returns to the start of the line and clears it.
    stderr.write(`\r\u001B[K${text ?? ''}`);
    shown = text !== undefined;
  };
  /** Removes the progress line first, so that the text does not follow it. */
  const line = (screen: Screen, text: string): void => {
    progress(undefined);
    screen.write(`${text}\n`);
  };
  return {
    interactive: stdin.isTTY === true && stderr.isTTY === true,
    width: stdout.isTTY === true ? (stdout.columns ?? 80) : undefined,
    paint: colour && stdout.isTTY === true ? painted : plain,
    print: (text) => line(stdout, text),
    note: (text) => line(stderr, json ? terminalSafe(JSON.stringify({ note: text })) : text),
    progress,
    progressWidth: stderr.columns ?? 80,
    ask: (question) => askLine(stdin, stderr, question),
    askSecret: (question) => askHidden(stdin, stderr, question),
    readInput: async () => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of stdin as AsyncIterable<Uint8Array>) chunks.push(chunk);
      return utf8Text(Buffer.concat(chunks), 'The standard input');
    },
    inputLines: () => readLines(stdin as AsyncIterable<Uint8Array>),
  };
}

const painted: Paint = (format, text) => styleText(format, text, { validateStream: false });

async function askLine(input: Readable, output: Writable, question: string): Promise<string> {
  const lines = createInterface({ input, output });
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.on('close', () => reject(interrupted()));
      lines.on('SIGINT', () => lines.close());
      lines.question(question).then(resolve, reject);
    });
  } finally {
    lines.close();
  }
}

/** Reads a line in raw mode: the terminal echoes nothing and leaves editing keys to the program. */
async function askHidden(
  input: Streams['stdin'],
  output: Writable,
  question: string,
): Promise<string> {
  output.write(question);
  input.setRawMode?.(true);
  input.setEncoding('utf8').resume();
  try {
    return await new Promise<string>((resolve, reject) => {
      let typed = '';
      input.on('end', () => reject(interrupted()));
      input.on('data', (keys: string) => {
        const pressed = pressKeys(typed, keys);
        if (pressed.ended === 'interrupted') reject(interrupted());
        else if (pressed.ended === 'entered') resolve(pressed.typed);
        else typed = pressed.typed;
      });
    });
  } finally {
    input.removeAllListeners('data').removeAllListeners('end');
    input.setRawMode?.(false);
    input.pause();
    output.write('\n');
  }
}

/** Applies keys to a hidden line; returns the line and how they ended it, if they did. */
export function pressKeys(
  before: string,
  keys: string,
): { readonly typed: string; readonly ended?: 'entered' | 'interrupted' } {
  let typed = before;
  for (const key of keys) {
    if (key === '\r' || key === '\n') return { typed, ended: 'entered' };
    // Ctrl-C, and Ctrl-D on an empty line.
    if (key === '\u0003' || (key === '\u0004' && typed === ''))
      return { typed, ended: 'interrupted' };
    // Backspace deletes a character, Ctrl-U the line.
    if (key === '\u007F' || key === '\b') typed = Array.from(typed).slice(0, -1).join('');
    else if (key === '\u0015') typed = '';
    else if (key >= ' ') typed += key;
  }
  return { typed };
}

function interrupted(): CommandFailed {
  return new CommandFailed(exitCodes.interrupted, 'Interrupted.');
}
