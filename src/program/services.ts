import type { ProgramContext } from './context.ts';
import { messageProcessCommand } from './message-command.ts';
import { ignoreSignals, listenForSignals } from './signals.ts';

/** A command that runs until a signal. */
export interface ServiceCommand {
  /** For the help; absent for a command that is hidden. */
  readonly description?: string;
  /** Whether it takes the options of {@link ServiceOptions}. */
  readonly takesOptions?: true;
  run(this: void, context: ProgramContext, options?: ServiceOptions): Promise<void>;
}

/** The options of services that start on a store. */
export interface ServiceOptions {
  /** Gives the first tenant the domain of the settings also while other nodes use the stored one. */
  readonly rename?: boolean;
}

/** The commands that run until a signal, by name. Each loads what only it needs. */
export const services: ReadonlyMap<string, ServiceCommand> = new Map<string, ServiceCommand>([
  [
    'start',
    {
      description: 'run the management API and the message API, and print how to reach them',
      takesOptions: true,
      run: async (context, options) => {
        const signals = listenForSignals(context.clock);
        const { start } = await import('./start-command.ts');
        await start(context, signals, options);
      },
    },
  ],
  [
    'serve',
    {
      description: 'run the management API alone',
      takesOptions: true,
      run: async (context, options) => {
        const signals = listenForSignals(context.clock);
        const { serve } = await import('./serve-command.ts');
        await serve(context, signals, options);
      },
    },
  ],
  [
    'messages',
    {
      description: 'run the message API alone, with tokens of any authorization server',
      run: async (context) => {
        const signals = listenForSignals(context.clock);
        const { messages } = await import('./messages-command.ts');
        await messages(context, signals);
      },
    },
  ],
  [
    messageProcessCommand,
    {
      run: async (context) => {
        ignoreSignals();
        const { messageProcess } = await import('./messages-command.ts');
        await messageProcess(context);
      },
    },
  ],
]);
