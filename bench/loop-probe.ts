/**
 * Measures how long the event loop of a server is held. A server under measurement loads it with
 * `--import`; at SIGUSR2 it writes the longest holds since the signal before into BENCH_LOOP_FILE.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { threadCpuUsage } from 'node:process';
import { isMainThread } from 'node:worker_threads';
import { noHolds, worse } from './loop-hold.ts';

const intervalMs = 1;
const file = process.env['BENCH_LOOP_FILE'];

if (isMainThread && file !== undefined) {
  let holds = noHolds;
  let lastMs = performance.now();
  let lastCpu = threadCpuUsage();
  setInterval(() => {
    const nowMs = performance.now();
    const cpu = threadCpuUsage();
    const computedMs = (cpu.user + cpu.system - lastCpu.user - lastCpu.system) / 1000;
    const longestMs = Math.max(0, nowMs - lastMs - intervalMs);
    holds = worse(holds, { longestMs, computedMs });
    lastMs = nowMs;
    lastCpu = cpu;
  }, intervalMs).unref();
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.part`, JSON.stringify(holds));
    renameSync(`${file}.part`, file);
    holds = noHolds;
  });
}
