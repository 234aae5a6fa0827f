import { after, before } from 'node:test';
import { createTempStore, startLeat, type Running, type TempStore } from '../helpers/leat.ts';

/**
 * Runs one server for all tests of a file, on a store of its own: starts it before them, passes it to
 * `started`, and kills it after them.
 */
export function runServer(
  settings: Readonly<Record<string, string>>,
  started: (leat: Running) => void,
): void {
  let tempStore: TempStore | undefined;
  let leat: Running | undefined;
  before(async () => {
    tempStore = await createTempStore();
    leat = await startLeat(tempStore, settings);
    started(leat);
  });
  after(async () => {
    await leat?.kill();
    await tempStore?.remove();
  });
}
