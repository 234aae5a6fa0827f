import { PassThrough } from 'node:stream';
import { createTerminal } from '../../../src/cli/terminal/terminal.ts';

/** Creates a terminal of 40 columns, or of pipes, and collects its output. */
export function openTerminal({ isTTY = true, colour = true } = {}) {
  const raw: boolean[] = [];
  const screen = () => Object.assign(new PassThrough(), { isTTY, columns: 40 });
  const stdin = Object.assign(new PassThrough(), {
    isTTY,
    setRawMode: (on: boolean) => raw.push(on),
  });
  const [stdout, stderr] = [screen(), screen()];
  const terminal = createTerminal({ stdin, stdout, stderr }, { colour });
  const written = { out: '', error: '' };
  stdout.on('data', (chunk: Buffer) => (written.out += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => (written.error += chunk.toString()));
  return { terminal, stdin, raw, written };
}
