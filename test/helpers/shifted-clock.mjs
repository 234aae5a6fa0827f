// Loaded by `--import` into a program that a test starts: its wall clock is ahead by the number of
// milliseconds in the file that SHIFTED_CLOCK names, which may change while it runs.
import { readFileSync } from 'node:fs';

const file = process.env['SHIFTED_CLOCK'] ?? '';
const own = Date.now.bind(Date);
let aheadMs = read();

function read() {
  const ms = Number(readFileSync(file, 'utf8'));
  return Number.isFinite(ms) ? ms : 0;
}

Date.now = () => own() + aheadMs;
setInterval(() => {
  aheadMs = read();
}, 20).unref();
