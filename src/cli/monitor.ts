import { type Command, InvalidArgumentError } from 'commander';
import { httpUrl, mailAddress, type Parse, smtpUrl, wholeNumber } from '../core/value.ts';
import { type CliDeps, examples, runWithApi, withCommonOptions } from './command.ts';
import { usageError } from './errors.ts';
import type { MonitorOptions } from './monitor-loop.ts';

/** `leat monitor`: alerts for a server that sends none, or that someone else runs. */
export function addMonitorCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('monitor'))
    .description('poll the failures of every stream and send alerts about new ones')
    .option('--once', 'poll once and exit; use with --state for cron')
    .option('--verbose', 'print each new failure, too; without it their number')
    .option('--interval <seconds>', 'time between polls', option(wholeNumber(1, 86_400)), 300)
    .option('--state <file>', 'file for what was reported, so that a restart reports nothing twice')
    .option(
      '--webhook-url <url>',
      'URL to post alerts to (or LEAT_ALERT_WEBHOOK_URL)',
      option(httpUrl),
    )
    .option(
      '--email <address>',
      'address to mail alerts to (or LEAT_ALERT_EMAIL)',
      option(mailAddress),
    )
    .option('--smtp-url <url>', 'mail server (or LEAT_SMTP_URL)', option(smtpUrl))
    .option(
      '--disable-consecutive <n>',
      'LEAT_DISABLE_CONSECUTIVE of the server',
      option(wholeNumber(1, 1_000_000)),
      500,
    )
    .option(
      '--disable-total <n>',
      'LEAT_DISABLE_TOTAL of the server',
      option(wholeNumber(1, 10_000_000)),
      5000,
    )
    .addHelpText('after', limitations)
    .addHelpText(
      'after',
      examples(
        'leat monitor --webhook-url https://hooks.example.com/T0/B0 --state leat-monitor.json',
        'leat monitor --once --state leat-monitor.json --json',
        'leat monitor --email ops@example.com --smtp-url smtp://mail.example.com:587',
      ),
    )
    .action((options: MonitorOptions) => {
      const complete = withEnvironment(options, deps.env);
      return runWithApi(deps, options, async (run) => {
        // Loads nodemailer, which the other commands must not wait for.
        const { monitor } = await import('./monitor-loop.ts');
        await monitor(run, complete, deps.version);
      });
    });
}

const limitations = `
It works with every server that has this API, and only reads lists. A list shows which failures are
open, so a failure is new when it was not open at the previous poll. A list does not show failures in
a row: alerts leave them out, and --disable-consecutive has no effect. A stream counts as disabled
automatically when it was enabled at the previous poll and is disabled now, with new failures or with
half of --disable-total open; a stream that someone disabled at such a time is reported too.`;

function withEnvironment(options: MonitorOptions, env: CliDeps['env']): MonitorOptions {
  const webhookUrl =
    options.webhookUrl ?? fromEnvironment('LEAT_ALERT_WEBHOOK_URL', env.alertWebhookUrl, httpUrl);
  const email = options.email ?? fromEnvironment('LEAT_ALERT_EMAIL', env.alertEmail, mailAddress);
  const server = options.smtpUrl ?? fromEnvironment('LEAT_SMTP_URL', env.smtpUrl, smtpUrl);
  if ((email === undefined) !== (server === undefined)) {
    throw usageError(
      '--email and --smtp-url go together, for example --smtp-url smtp://mail.example.com:587',
    );
  }
  return {
    ...options,
    ...(webhookUrl === undefined ? {} : { webhookUrl }),
    ...(email === undefined || server === undefined ? {} : { email, smtpUrl: server }),
  };
}

/** Parses a variable. The error does not repeat the text: its path or user info may be secret. */
function fromEnvironment(
  name: string,
  value: string | undefined,
  parse: Parse<string>,
): string | undefined {
  if (value === undefined) return undefined;
  const parsed = parse(value);
  if ('value' in parsed) return parsed.value;
  throw usageError(`${name} ${parsed.problem}: correct it, or unset it.`);
}

/** Creates the parser of an option. It throws a usage error. */
function option<T>(parse: Parse<T>): (value: string) => T {
  return (value) => {
    const parsed = parse(value);
    if ('value' in parsed) return parsed.value;
    throw new InvalidArgumentError(`It ${parsed.problem}.`);
  };
}
