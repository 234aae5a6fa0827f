import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import { styleText } from 'node:util';
import { CommandFailed, exitCodes } from '../errors.ts';
import { readLines } from '../read-lines.ts';

/** Where a command reads and writes. */
export interface Streams {
  readonly stdin: Readable & { readonly isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  readonly stdout: Screen;
  readonly stderr: Screen;
}

type Screen = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** What a command says and asks. Texts of the server must be made printable before. */
export interface Terminal {
  /** Whether a person can answer questions. */
  readonly interactive: boolean;
  /** Columns of the standard output; absent when that is no terminal. */
  readonly width: number | undefined;
  /** Colours a text for the standard output, where colours are wanted. */
  readonly paint: Paint;
  /** A line of the result. */
  print(text: string): void;
  /** A line beside the result, on the standard error. */
  note(text: string): void;
  /**
   * A line that the next one takes the place of, for a person who waits; nothing when nobody looks.
   * `undefined` removes it.
   */
  progress(text: string | undefined): void;
  /** Whether {@link progress} shows anything. */
  readonly showsProgress: boolean;
  /** Columns for {@link progress}. */
  readonly progressWidth: number;
  ask(question: string): Promise<string>;
  /** Asks for a secret: what is typed is not shown. */
  askSecret(question: string): Promise<string>;
  /** The whole standard input. */
  readInput(): Promise<string>;
  /** The standard input line by line, without line ends. */
  inputLines(): AsyncIterable<string>;
}

export type Paint = (format: Format, text: string) => string;
export type Format = Parameters<typeof styleText>[0];

/** No colours. */
export const plain: Paint = (_format, text) => text;

/** A terminal on the streams of the program. `colour` false forbids colours. */
export function createTerminal(
  { stdin, stdout, stderr }: Streams,
  { colour }: { readonly colour: boolean },
): Terminal {
  let shown = false;
  const progress = (text: string | undefined): void => {
    if (stderr.isTTY !== true) return;
    if (text === undefined && !shown) return;
    // Carriage return, then the rest of the line is cleared.
    stderr.write(`\r\u001B[K${text ?? ''}`);
    shown = text !== undefined;
  };
  /** A line of text never lands behind a progress line. */
  const line = (screen: Screen, text: string): void => {
    progress(undefined);
    screen.write(`${text}\n`);
  };
  return {
    interactive: stdin.isTTY === true && stderr.isTTY === true,
    width: stdout.isTTY === true ? (stdout.columns ?? 80) : undefined,
    paint: colour && stdout.isTTY === true ? painted : plain,
    print: (text) => line(stdout, text),
    note: (text) => line(stderr, text),
    progress,
    showsProgress: stderr.isTTY === true,
    progressWidth: stderr.columns ?? 80,
    ask: (question) => askLine(stdin, stderr, question),
    askSecret: (question) => askHidden(stdin, stderr, question),
    readInput: async () => {
      let text = '';
      for await (const chunk of stdin.setEncoding('utf8') as AsyncIterable<string>) text += chunk;
      return text;
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

/** In raw mode the terminal echoes nothing; the keys that end or mend a line are ours to obey. */
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

/** What a hidden line is after some keys, and whether they ended it. */
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
    // Backspace takes a character, Ctrl-U the line.
    if (key === '\u007F' || key === '\b') typed = Array.from(typed).slice(0, -1).join('');
    else if (key === '\u0015') typed = '';
    else if (key >= ' ') typed += key;
  }
  return { typed };
}

function interrupted(): CommandFailed {
  return new CommandFailed(exitCodes.interrupted, 'Interrupted.');
}
