import {
  type ConsoleData,
  consoleSettings,
  createConsoleStreams,
  fillConsole,
} from './console-data.ts';
import { publishPast, writePast } from './console-past.ts';
import { type ConsoleReceivers, startConsoleReceivers } from './console-receivers.ts';
import { freePort, type Running, startLeat, type TempStore } from './leat.ts';

/** A running service with much to see, and the receivers that it sends to. */
export interface ConsoleService {
  /** The service; another one after a restart, on the same port. */
  readonly leat: Running;
  readonly data: ConsoleData;
  readonly receivers: ConsoleReceivers;
  /** Kills the service and starts it again; what it has in memory is lost, for example the inspectors. */
  restart(): Promise<void>;
  /** Ends both; the store stays. */
  close(): Promise<void>;
}

export interface ConsoleServiceOptions {
  readonly settings?: Readonly<Record<string, string>>;
  readonly seed?: number;
  readonly largestGroup?: number;
  /** Whether it has a past of weeks: events, statistics, and a stream that lags. On SQLite only. */
  readonly past?: boolean;
  readonly progress?: (text: string) => void;
}

/** Starts a service on an empty store and fills it. */
export async function startConsoleService(
  tempStore: TempStore,
  { settings = {}, past = false, ...options }: ConsoleServiceOptions = {},
): Promise<ConsoleService> {
  const { progress = () => undefined, seed = 1 } = options;
  const receivers = await startConsoleReceivers();
  const port = settings['LEAT_PORT'] ?? String(await freePort());
  const all = { ...receivers.settings, ...consoleSettings, ...settings, LEAT_PORT: port };
  let leat: Running | undefined;
  const start = async (): Promise<Running> => {
    await leat?.kill();
    leat = await startLeat(tempStore, all);
    return leat;
  };
  const close = async (): Promise<void> => {
    await leat?.kill();
    await receivers.close();
  };
  const startWithPast = async (): Promise<ConsoleData['streams']> => {
    const now = Date.now();
    const first = await start();
    const { passed } = await publishPast(first, { seed, now });
    const streams = await createConsoleStreams(first, receivers, { 'search-index': passed });
    await first.stop();
    progress('the past');
    writePast(tempStore.file, streams, { seed, now });
    return streams;
  };
  try {
    progress('starting the service');
    const streams = past ? await startWithPast() : undefined;
    let running = await start();
    const data = await fillConsole(running, { receivers, ...options, streams });
    return {
      get leat() {
        return running;
      },
      data,
      receivers,
      restart: async () => {
        running = await start();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
