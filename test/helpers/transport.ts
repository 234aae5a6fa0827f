import type { AttemptResult, SendResult } from '../../src/core/retry.ts';
import type { WebhookKeys } from '../../src/core/sign.ts';
import type { Transport, WebhookRequest } from '../../src/delivery/http/transport.ts';

/** A transport that sends nothing: each post ends as the test says, at once or later. */
export interface ScriptedTransport extends Transport {
  /** Every post so far, oldest first. */
  readonly posts: readonly ScriptedPost[];
  /** Posts that have not ended. */
  readonly open: readonly ScriptedPost[];
  /** Returns how a post ends; with `undefined` it stays open. */
  respond: (post: ScriptedPost) => SendResult | undefined;
  /** As {@link Transport.prepare}; at once unless a test replaces it. */
  prepare: Transport['prepare'];
  /** As {@link Transport.isReady}; true unless a test replaces it. */
  isReady: Transport['isReady'];
  /** Milliseconds that each post reports as its wait for a name lookup. */
  waitedMs: number;
  /** The most posts that were open at once. */
  readonly mostOpen: number;
}

export interface ScriptedPost {
  readonly request: WebhookRequest;
  /** The `webhook-id` header. */
  readonly eventId: string;
  readonly cancelled: boolean;
  end(result: SendResult): void;
}

export const respondedWith = (status: number, text = '', retryAfter?: string): AttemptResult => ({
  kind: 'response',
  status,
  text,
  retryAfter,
});
/** For dispatchers whose streams are all signed as `v1`. */
export const noKeys: WebhookKeys = {
  keyOf: () => {
    throw new Error('no stream of the test is signed as v1a');
  },
};

export const ok = respondedWith(204);
/** This node has no file descriptor left. */
export const noDescriptor: SendResult = { kind: 'shortage', code: 'EMFILE' };
export const timedOut: AttemptResult = { kind: 'error', cause: 'timeout', detail: undefined };

export function headerOf(request: WebhookRequest, name: string): string | undefined {
  const index = request.headers.findIndex((item, at) => at % 2 === 0 && item === name);
  return index < 0 ? undefined : request.headers[index + 1];
}

export function createScriptedTransport(
  respond: ScriptedTransport['respond'] = () => ok,
): ScriptedTransport {
  const posts: ScriptedPost[] = [];
  const open = new Set<ScriptedPost>();
  let mostOpen = 0;
  const scripted: ScriptedTransport = {
    posts,
    get open() {
      return [...open];
    },
    get mostOpen() {
      return mostOpen;
    },
    respond,
    waitedMs: 0,
    prepare: () => true,
    isReady: () => true,
    post: (request) => {
      const { promise, resolve } = Promise.withResolvers<SendResult>();
      let cancelled = false;
      const post: ScriptedPost = {
        request,
        eventId: headerOf(request, 'webhook-id') ?? '',
        get cancelled() {
          return cancelled;
        },
        end: (result) => {
          open.delete(post);
          resolve(result);
        },
      };
      posts.push(post);
      open.add(post);
      mostOpen = Math.max(mostOpen, open.size);
      const result = scripted.respond(post);
      if (result !== undefined) post.end(result);
      return {
        ended: promise,
        waitedMs: scripted.waitedMs,
        cancel: () => {
          cancelled = open.has(post);
          post.end({ kind: 'error', cause: 'cancelled', detail: undefined });
        },
      };
    },
    close: () => {
      for (const post of open) post.end({ kind: 'error', cause: 'cancelled', detail: undefined });
      return Promise.resolve();
    },
  };
  return scripted;
}
