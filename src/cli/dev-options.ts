import { Argument, type Command, Option } from 'commander';
import { examples } from './command.ts';
import { wholeNumberOption } from './option.ts';

/** The options of `leat dev`. */
export interface DevOptions {
  readonly data?: string;
  readonly port?: number;
  readonly once?: boolean;
  readonly json?: boolean;
  readonly color: boolean;
}

/** The event that `leat dev` publishes without an argument. */
export const devEventType = 'user.created';

/** `leat dev` */
export function addDevCommand(
  program: Command,
  dev: (type: string | undefined, options: DevOptions) => Promise<void>,
): void {
  program
    .command('dev')
    .description('try Leat: a service and a receiver for this command alone, and a first event')
    .addArgument(new Argument('[type]', `type of the first event (default: ${devEventType})`))
    .option('--data <json>', 'data of the event: a JSON object, @file, or - for stdin')
    .option(
      '--port <port>',
      'port of the service; a free one without it',
      wholeNumberOption(1, 65_535),
    )
    .option('--once', 'end after the first delivery, and do not log in')
    .option('--json', 'print JSON for programs')
    .addOption(new Option('--no-color', 'no colours (or NO_COLOR)'))
    .addHelpText(
      'after',
      examples(
        'leat dev',
        `leat dev order.paid --data '{"id": 7}'`,
        'leat dev user.deleted --once --json',
      ),
    )
    .action(dev);
}
