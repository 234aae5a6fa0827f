import type { Clock, Timer } from '../core/clock.ts';
import { cancelled, type SendResult, type Shortage } from '../core/retry.ts';
import type { AccessTokens, TokenOwner, TokenResult } from './http/access-tokens.ts';
import type { PendingRequest } from './http/transport.ts';
import type { SigningTransport, UnsignedRequest } from './signing-transport.ts';

export interface AuthorizedTransportDeps {
  readonly transport: SigningTransport;
  readonly tokens: AccessTokens;
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** Of an attempt without a timeout of its own; both requests and the fetch between them included. */
  readonly timeoutMs: number;
}

/**
 * Creates a transport that adds access tokens to the requests of streams that need one. A token is
 * fetched before an attempt takes a slot: see {@link SigningTransport.prepare}. When the receiver responds
 * with 401, the attempt sends once more, with another token.
 */
export function createAuthorizedTransport(deps: AuthorizedTransportDeps): SigningTransport {
  const { transport, tokens } = deps;
  const open = new Set<AuthorizedRequest>();
  return {
    prepare: (tenant, origin, needs) => {
      const prepared = needs?.token === undefined ? true : tokens.prepare(needs.token);
      return prepared === true ? transport.prepare(tenant, origin, needs) : prepared;
    },
    isReady: (origin, needs) =>
      (needs?.token === undefined || tokens.isReady(needs.token)) &&
      transport.isReady(origin, needs),
    post: (request) => {
      const { token: owner } = request.template;
      if (owner === undefined) return transport.post(request);
      const pending = new AuthorizedRequest(deps, request, owner);
      open.add(pending);
      void pending.ended.then(() => open.delete(pending));
      return pending;
    },
    close: async () => {
      for (const pending of open) pending.cancel();
      tokens.close();
      await transport.close();
    },
  };
}

/**
 * The longest wait of an attempt for its first token; it fails then. The attempt was prepared, so this
 * is for changes since then.
 */
const tokenWaitMaxMs = 2000;

class AuthorizedRequest implements PendingRequest {
  readonly ended: Promise<SendResult>;
  readonly #deps: AuthorizedTransportDeps;
  readonly #request: UnsignedRequest;
  readonly #owner: TokenOwner;
  readonly #startedMs: number;
  #resolve: (result: SendResult) => void = ignore;
  #inner: PendingRequest | undefined;
  readonly #sent: string[] = [];
  #formerWaitedMs = 0;
  #timer: Timer | undefined;
  #isOver = false;

  constructor(deps: AuthorizedTransportDeps, request: UnsignedRequest, owner: TokenOwner) {
    this.#deps = deps;
    this.#request = request;
    this.#owner = owner;
    this.#startedMs = deps.clock.elapsedMs();
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    void this.#start();
  }

  get waitedMs(): number {
    return this.#formerWaitedMs + (this.#inner?.waitedMs ?? 0);
  }

  get tokens(): readonly string[] {
    const known = this.#deps.tokens.tokensOf(this.#owner);
    const isKnown = this.#sent.every((token) => known.includes(token));
    return isKnown ? known : [...this.#sent, ...known];
  }

  cancel(): void {
    this.#end(cancelled);
  }

  async #start(): Promise<void> {
    const found = this.#deps.tokens.find(this.#owner);
    const first = found instanceof Promise ? await this.#within(tokenWaitMaxMs, found) : found;
    if (first.kind === 'failed') return this.#fail(first);
    const result = await this.#post(first.token);
    if (result.kind !== 'response' || result.status !== 401) return this.#end(result);
    const other = this.#deps.tokens.replace(this.#owner, first.token);
    if (other === undefined) return this.#end(result);
    this.#formerWaitedMs = this.waitedMs;
    this.#inner = undefined;
    const second = other instanceof Promise ? await this.#within(this.#leftMs(), other) : other;
    if (second.kind === 'failed') return this.#fail(second);
    this.#bound();
    this.#end(await this.#post(second.token));
  }

  #post(token: string): Promise<SendResult> {
    if (this.#isOver) return Promise.resolve(cancelled);
    this.#sent.push(token);
    this.#inner = this.#deps.transport.post({ ...this.#request, accessToken: token });
    return this.#inner.ended;
  }

  /** Returns the result, or a failure when it does not come in time. */
  async #within(ms: number, result: Promise<TokenResult>): Promise<TokenResult> {
    const late = Promise.withResolvers<TokenResult>();
    const timer = this.#deps.clock.after(Math.max(0, ms), () =>
      late.resolve({ kind: 'failed', detail: 'token endpoint: no token in time' }),
    );
    try {
      return await Promise.race([result, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  /** Ends the second request when the time of the attempt is over: it has a timeout of its own. */
  #bound(): void {
    if (this.#isOver) return;
    this.#timer = this.#deps.clock.after(Math.max(0, this.#leftMs()), () =>
      this.#end({ kind: 'error', cause: 'timeout', detail: undefined }),
    );
  }

  #leftMs(): number {
    const { clock } = this.#deps;
    const { timeoutMs = this.#deps.timeoutMs } = this.#request.template;
    return timeoutMs + this.waitedMs - (clock.elapsedMs() - this.#startedMs);
  }

  #fail({ detail, shortage }: { readonly detail: string; readonly shortage?: Shortage }): void {
    this.#end(shortage ?? { kind: 'error', cause: 'authorization', detail });
  }

  #end(result: SendResult): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#inner?.cancel();
    this.#resolve(result);
  }
}

function ignore(): void {}
