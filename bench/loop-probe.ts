/**
 * Measures how long the event loop of a server is held. A server under measurement loads it with
 * `--import`; at SIGUSR2 it writes the longest holds since the signal before into BENCH_LOOP_FILE.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { threadCpuUsage } from 'node:process';
import { isMainThread } from 'node:worker_threads';
import type { Holds } from './holds.ts';

const intervalMs = 1;
const file = process.env['BENCH_LOOP_FILE'];
const noHolds: Holds = { longestMs: 0, computedMs: 0 };

if (isMainThread && file !== undefined) {
  let holds = noHolds;
  let lastMs = performance.now();
  let lastCpu = threadCpuUsage();
  setInterval(() => {
    const nowMs = performance.now();
    const cpu = threadCpuUsage();
    const computedMs = (cpu.user + cpu.system - lastCpu.user - lastCpu.system) / 1000;
    holds = {
      longestMs: Math.max(holds.longestMs, nowMs - lastMs - intervalMs),
      computedMs: Math.max(holds.computedMs, computedMs),
    };
    lastMs = nowMs;
    lastCpu = cpu;
  }, intervalMs).unref();
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.part`, JSON.stringify(holds));
    renameSync(`${file}.part`, file);
    holds = noHolds;
  });
}
