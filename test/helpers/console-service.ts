import { type ConsoleData, consoleSettings, fillConsole } from './console-data.ts';
import { type ConsoleReceivers, startConsoleReceivers } from './console-receivers.ts';
import { type Running, startLeat, type TempStore } from './leat.ts';

/** A running service with much to see, and the receivers that it sends to. */
export interface ConsoleService {
  readonly leat: Running;
  readonly data: ConsoleData;
  readonly receivers: ConsoleReceivers;
  /** Ends both; the store stays. */
  close(): Promise<void>;
}

export interface ConsoleServiceOptions {
  readonly settings?: Readonly<Record<string, string>>;
  readonly seed?: number;
  readonly largestGroup?: number;
  readonly progress?: (text: string) => void;
}

/** Starts a service on an empty store and fills it. */
export async function startConsoleService(
  tempStore: TempStore,
  { settings = {}, ...options }: ConsoleServiceOptions = {},
): Promise<ConsoleService> {
  const receivers = await startConsoleReceivers();
  let leat: Running | undefined;
  const close = async (): Promise<void> => {
    await leat?.kill();
    await receivers.close();
  };
  try {
    options.progress?.('starting the service');
    leat = await startLeat(tempStore, { ...receivers.settings, ...consoleSettings, ...settings });
    const data = await fillConsole(leat, { receivers, ...options });
    return { leat, data, receivers, close };
  } catch (error) {
    await close();
    throw error;
  }
}
