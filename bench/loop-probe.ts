/**
 * Measures how long the event loop of a server is held. A server under measurement loads it with
 * `--import`; at SIGUSR2 it writes the longest hold since the signal before into BENCH_LOOP_FILE.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const resolutionMs = 1;
const file = process.env['BENCH_LOOP_FILE'];

if (isMainThread && file !== undefined) {
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  process.on('SIGUSR2', () => {
    const longestMs = Math.max(0, delay.max / 1e6 - resolutionMs);
    delay.reset();
    writeFileSync(`${file}.part`, JSON.stringify({ longestMs }));
    renameSync(`${file}.part`, file);
  });
}
