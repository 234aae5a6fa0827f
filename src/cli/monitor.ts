import { type Command, InvalidArgumentError } from 'commander';
import { httpUrl, mailAddress, type Parse, smtpUrl, wholeNumber } from '../core/value.ts';
import { type CliDeps, examples, runWithApi, withCommonOptions } from './command.ts';
import type { MonitorOptions } from './monitor-loop.ts';
import { usageError } from './errors.ts';

/** `leat monitor`: the alarm of a server that has none, or that somebody else runs. */
export function addMonitorCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('monitor'))
    .description('look at the failures of every stream again and again, and tell of new ones')
    .option('--once', 'look once and end; with --state for cron')
    .option('--interval <seconds>', 'from one look to the next', count(1, 86_400), 300)
    .option('--state <file>', 'keep what was told, so that a restart tells nothing twice')
    .option('--webhook-url <url>', 'post alerts there (or LEAT_ALERT_WEBHOOK_URL)', text(httpUrl))
    .option('--email <address>', 'mail them there (or LEAT_ALERT_EMAIL)', text(mailAddress))
    .option('--smtp-url <url>', 'by this server (or LEAT_SMTP_URL)', text(smtpUrl))
    .option('--disable-consecutive <n>', 'limit of the server', count(1, 1_000_000), 500)
    .option('--disable-total <n>', 'limit of the server', count(1, 10_000_000), 5000)
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
      const wishes = withEnvironment(options, deps.env);
      return runWithApi(deps, options, async (run) => {
        // With what sends mail: the other commands must not wait until that is read.
        const { monitor } = await import('./monitor-loop.ts');
        await monitor(run, wishes, deps.version);
      });
    });
}

const limitations = `
It works with every server of this API and reads lists only. A list shows which failures are open,
so a failure is new when it was not open at the look before. It does not show failures in a row:
alerts leave them out, and --disable-consecutive only serves to say so. A stream counts as disabled
by itself when it was enabled at the look before and is disabled now, with new failures or with half
of --disable-total open; one that somebody disabled by hand at such a time is told of too.`;

function withEnvironment(options: MonitorOptions, env: CliDeps['env']): MonitorOptions {
  const webhookUrl =
    options.webhookUrl ?? parsed('LEAT_ALERT_WEBHOOK_URL', env.alertWebhookUrl, httpUrl);
  const email = options.email ?? parsed('LEAT_ALERT_EMAIL', env.alertEmail, mailAddress);
  const server = options.smtpUrl ?? parsed('LEAT_SMTP_URL', env.smtpUrl, smtpUrl);
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

/** Says nothing of the text: its path or its user info may be secret. */
function parsed(name: string, value: string | undefined, parse: Parse<string>): string | undefined {
  if (value === undefined) return undefined;
  const answer = parse(value);
  if ('value' in answer) return answer.value;
  throw usageError(`${name}: what it has ${answer.problem}.`);
}

function text(parse: Parse<string>): (value: string) => string {
  return (value) => {
    const answer = parse(value);
    if ('value' in answer) return answer.value;
    throw new InvalidArgumentError(`It ${answer.problem}.`);
  };
}

function count(min: number, max: number): (value: string) => number {
  const parse = wholeNumber(min, max);
  return (value) => {
    const answer = parse(value);
    if ('value' in answer) return answer.value;
    throw new InvalidArgumentError(`It ${answer.problem}.`);
  };
}
