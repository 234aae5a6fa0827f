// Loaded by `--import` into a program that a test starts, and into its threads that run a file: each collects its garbage and
// writes what it uses whenever the number in the file that MEMORY_PROBE names has changed.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { threadId } from 'node:worker_threads';

const file = process.env['MEMORY_PROBE'] ?? '';
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
let last = '';

setInterval(() => {
  const asked = readFileSync(file, 'utf8');
  if (asked === last) return;
  last = asked;
  collect();
  // The first collection has queued finalizers.
  setImmediate(() => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    const own = `${file}.${threadId}`;
    writeFileSync(`${own}.next`, JSON.stringify({ asked: Number(asked), heapUsed, arrayBuffers }));
    renameSync(`${own}.next`, own);
  });
}, 100).unref();
