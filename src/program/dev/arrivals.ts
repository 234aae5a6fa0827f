import { requestLine } from '../../cli/listen.ts';
import type { Terminal } from '../../cli/terminal/terminal.ts';
import { type Webhook, webhookJson } from '../../cli/webhook.ts';

/** The webhooks that a receiver has got, on their way to the screen. */
export interface Arrivals {
  readonly onWebhook: (this: void, webhook: Webhook) => void;
  /** Resolves to the first webhook with a valid signature. */
  readonly first: Promise<Webhook>;
  /** Prints the webhooks since the first one, and each further one when it arrives. */
  follow(): void;
}

/** Creates the list. As JSON every webhook is printed at once. */
export function createArrivals(
  { print, paint }: Pick<Terminal, 'print' | 'paint'>,
  json: boolean,
): Arrivals {
  const { promise: first, resolve } = Promise.withResolvers<Webhook>();
  const waiting: Webhook[] = [];
  let hasFirst = false;
  let isFollowing = json;
  const show = (webhook: Webhook): void =>
    print(json ? webhookJson(webhook) : requestLine(webhook, paint));
  return {
    first,
    onWebhook: (webhook) => {
      const isFirst = !hasFirst && webhook.signature === 'valid';
      if (isFollowing) show(webhook);
      else if (!isFirst) waiting.push(webhook);
      if (!isFirst) return;
      hasFirst = true;
      resolve(webhook);
    },
    follow: () => {
      isFollowing = true;
      for (const webhook of waiting.splice(0)) show(webhook);
    },
  };
}
