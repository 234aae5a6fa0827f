import { Worker } from 'node:worker_threads';
import { thread } from '../../core/asset.ts';
import type { Clock } from '../../core/clock.ts';
import { isInspectorOrigin } from '../../core/inspector.ts';
import { cancelled, type SendResult, type Shortage } from '../../core/retry.ts';
import type { BlockedFound } from '../http/egress.ts';
import type { NameLookups, NameResult } from '../http/name-lookups.ts';
import { noThread, type Shortages } from '../http/shortages.ts';
import { shortageOf } from '../http/transport-error.ts';
import type { UnaskedOrigins } from '../http/unasked-origins.ts';
import { routeOf } from '../http/route.ts';
import type { PendingRequest } from '../http/transport.ts';
import type { RequestTemplate } from '../request.ts';
import { endedWith, type SigningTransport, type UnsignedRequest } from '../signing-transport.ts';
import {
  type FromSender,
  type Mutable,
  type RequestItems,
  type ResultItems,
  resultLength,
  resultOf,
  type ToSender,
} from './messages.ts';
import type { SenderThreadData } from './sender-thread.ts';

export interface SenderThreadsDeps {
  /**
   * Threads at most. The next one starts when all others are busy, and one at a time: a thread takes some
   * 20 MB, and a start holds this thread for milliseconds.
   */
  readonly count: number;
  readonly data: SenderThreadData;
  /**
   * Sends on this thread: what goes to inspectors, and everything while no other thread is ready.
   */
  readonly here: SigningTransport;
  readonly names: Pick<NameLookups, 'last' | 'find'>;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly blockedFound?: BlockedFound | undefined;
  /** Also of the transport on this thread. */
  readonly unasked: UnaskedOrigins;
  readonly shortages: Pick<Shortages, 'connections' | 'noted'>;
  /** A thread has failed, or could not build a request. */
  readonly unexpected: (error: unknown) => void;
}

/**
 * Creates a transport that signs and sends on other threads. This thread decides whether an attempt
 * can begin, and looks names up for all. When a thread ends, its attempts end as a shortage, so they
 * are made again, and it is started again.
 */
export function createSenderThreads(deps: SenderThreadsDeps): SigningTransport {
  const { count, here } = deps;
  const threads = Array.from({ length: count }, (_, index) => new SenderThread(deps, index + 1));
  deps.unasked.listen((origin) => {
    for (const each of threads) each.noteUnasked(origin);
  });
  let isClosed = false;
  const hasIdle = (route: string): boolean => threads.some((each) => each.idle(route) > 0);
  return {
    prepare: (tenant, origin, needs) =>
      hasIdle(routeOf(origin, needs)) || here.prepare(tenant, origin, needs),
    isReady: (origin, needs) => hasIdle(routeOf(origin, needs)) || here.isReady(origin, needs),
    post: (request) => {
      if (isClosed) return endedWith(cancelled);
      const { template } = request;
      if (isInspectorOrigin(template.origin)) return here.post(request);
      const route = routeOf(template.origin, template);
      return choose(threads, route)?.post(request, route) ?? here.post(request);
    },
    close: async () => {
      isClosed = true;
      await Promise.all([here.close(), ...threads.map((each) => each.close())]);
    },
  };
}

/**
 * An idle connection of a thread is worth this many attempts under way: a new one takes a handshake,
 * but one thread must not send everything because it was the first one.
 */
const idleWorth = 64;

/** A thread with so many attempts under way is busy. */
const busyFrom = 64;

/** Returns the thread that should send the request, if any is ready; starts one if all are busy. */
function choose(threads: readonly SenderThread[], route: string): SenderThread | undefined {
  let best: SenderThread | undefined;
  let bestLoad = Infinity;
  for (const each of threads) {
    if (!each.isReady) continue;
    const load = each.underWay - (each.idle(route) > 0 ? idleWorth : 0);
    if (load >= bestLoad) continue;
    best = each;
    bestLoad = load;
  }
  const isBusy = best === undefined || best.underWay >= busyFrom;
  if (isBusy && !threads.some((each) => each.isStarting)) threads.find((each) => each.start());
  return best;
}

/** It cannot be known whether the receiver has got the request: it is made again, as after a crash. */
const threadEnded: Shortage = { kind: 'shortage', code: noThread };

/** Returns what a thread lacked that could not start, or has reached the limit of its memory. */
function shortageOfThread(error: unknown): Shortage | undefined {
  const { code, message } = Object(error) as {
    readonly code?: unknown;
    readonly message?: unknown;
  };
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return threadEnded;
  if (code !== 'ERR_WORKER_INIT_FAILED') return shortageOf(error);
  // The message ends with the code of the system: "Worker initialization failure: EMFILE".
  return shortageOf({ code: /E[A-Z]+$/.exec(String(message))?.[0] }) ?? threadEnded;
}

/** Streams whose templates a thread knows; it receives those of others again. */
const templatesMax = 4096;

/** From one start of a thread to the next, doubled while it ends before it is ready, up to a minute. */
const restartMs = 1000;
const doublingsMax = 6;

/** One thread: its attempts under way, and the message that it receives next. */
class SenderThread {
  readonly #deps: SenderThreadsDeps;
  readonly #index: number;
  readonly #underWay = new Map<number, ThreadRequest>();
  readonly #idle = new Map<string, number>();
  #worker: Worker | undefined;
  #startedMs = -Infinity;
  /** Starts since it was last ready. */
  #vainStarts = 0;
  #isReady = false;
  #isClosed = false;
  #references = new References(templatesMax);
  #lastRequest = 0;
  #unsent: Mutable<ToSender> | undefined;

  constructor(deps: SenderThreadsDeps, index: number) {
    this.#deps = deps;
    this.#index = index;
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  /** Returns the idle connections of a route, as far as known here. */
  idle(route: string): number {
    return this.#idle.get(route) ?? 0;
  }

  /** It can send. */
  get isReady(): boolean {
    return this.#isReady;
  }

  get isStarting(): boolean {
    return this.#worker !== undefined && !this.#isReady;
  }

  /** Starts it, unless it is running or was started just before; returns whether it tried. */
  start(): boolean {
    if (this.#worker !== undefined || this.#isClosed) return false;
    const nowMs = this.#deps.clock.elapsedMs();
    const waitMs = restartMs * 2 ** Math.min(this.#vainStarts, doublingsMax);
    if (nowMs - this.#startedMs < waitMs) return false;
    this.#startedMs = nowMs;
    this.#vainStarts += 1;
    try {
      this.#worker = this.#newWorker();
    } catch (error) {
      // The system has no room for another thread, or Node is not permitted to start any.
      this.#failed(error);
    }
    return true;
  }

  post({ template, event, at, accessToken, key }: UnsignedRequest, route: string): PendingRequest {
    const idle = this.idle(route);
    if (idle > 0) this.#idle.set(route, idle - 1);
    else this.#deps.shortages.connections.began();
    this.#lastRequest += 1;
    const number = this.#lastRequest;
    const request = new ThreadRequest(() => this.#cancel(number));
    this.#underWay.set(number, request);
    const items: RequestItems = [
      number,
      this.#refer(template, sendable),
      event.id,
      event.body,
      event.trace,
      at,
      accessToken,
      key === undefined ? 0 : this.#refer(key.key, unchanged),
      key?.kid ?? '',
    ];
    this.#next().requests.push(...items);
    return request;
  }

  noteUnasked(origin: string): void {
    if (this.#isReady) this.#next().unasked.push(origin);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    this.#ended();
    await worker?.terminate();
  }

  #newWorker(): Worker {
    const name = `sender ${this.#index}`;
    const program = thread('delivery/threads/sender-thread.ts');
    const options = { eval: program.eval, workerData: this.#deps.data, name };
    const worker = new Worker(program.source, options);
    worker.on('message', (message: FromSender) => {
      if (this.#worker === worker) this.#receive(message, worker);
    });
    worker.on('error', (error) => this.#failed(error));
    // Results in a message that cannot be read would be missing for ever.
    worker.on('messageerror', (error) => {
      this.#deps.unexpected(error);
      void worker.terminate();
    });
    worker.once('exit', () => {
      if (this.#worker === worker) this.#ended();
    });
    // After the listeners, because the one for messages would hold the process again.
    worker.unref();
    return worker;
  }

  #failed(error: unknown): void {
    const shortage = shortageOfThread(error);
    if (shortage === undefined) this.#deps.unexpected(error);
    else this.#deps.shortages.noted(shortage);
  }

  #ended(): void {
    this.#worker = undefined;
    this.#isReady = false;
    this.#unsent = undefined;
    this.#references = new References(templatesMax);
    this.#idle.clear();
    const underWay = [...this.#underWay.values()];
    this.#underWay.clear();
    const result = this.#isClosed ? cancelled : threadEnded;
    for (const request of underWay) request.end(result, 0);
  }

  #cancel(number: number): void {
    const request = this.#underWay.get(number);
    if (request === undefined) return;
    this.#underWay.delete(number);
    this.#next().cancelled.push(number);
    request.end(cancelled, 0);
  }

  #refer<T extends object>(value: T, sent: (value: T) => object): number {
    const message = this.#next();
    return this.#references.of(
      value,
      (reference) => message.added.push([reference, sent(value)]),
      (reference) => message.removed.push(reference),
    );
  }

  #receive(
    { results, idle, lookups, blocked, unasked, unexpected }: FromSender,
    worker: Worker,
  ): void {
    if (!this.#isReady) this.#begin();
    for (const [route, connections] of idle) {
      if (connections === 0) this.#idle.delete(route);
      else this.#idle.set(route, connections);
    }
    for (let at = 0; at < results.length; at += resultLength) {
      const items = results.slice(at, at + resultLength) as ResultItems;
      const [number, waitedMs] = items;
      const request = this.#underWay.get(number);
      this.#underWay.delete(number);
      request?.end(resultOf(items), waitedMs);
    }
    for (const request of lookups) this.#find(request, worker);
    for (const [name, address] of blocked) this.#deps.blockedFound?.(name, address);
    for (const origin of unasked) this.#deps.unasked.note(origin, true);
    for (const error of unexpected) this.#deps.unexpected(error);
  }

  /** It is ready: it learns what was found before. */
  #begin(): void {
    this.#isReady = true;
    this.#vainStarts = 0;
    for (const origin of this.#deps.unasked.all()) this.noteUnasked(origin);
  }

  #find([lookup, tenant, name]: FromSender['lookups'][number], worker: Worker): void {
    const { names } = this.#deps;
    // A thread that was started since has given this number to another lookup.
    const begun = (): void => {
      if (this.#worker === worker) this.#next().begun.push(lookup);
    };
    const ended = (result: NameResult): void => {
      if (this.#worker === worker) this.#next().found.push([lookup, result]);
    };
    const known = names.last(name);
    if (known === undefined) return names.find(tenant, name, { first: true, begun, ended });
    begun();
    ended(known);
  }

  /** Returns the message that is sent when the present work of this thread is done. */
  #next(): Mutable<ToSender> {
    if (this.#unsent === undefined) {
      this.#unsent = {
        added: [],
        removed: [],
        requests: [],
        cancelled: [],
        begun: [],
        found: [],
        unasked: [],
      };
      queueMicrotask(() => this.#send());
    }
    return this.#unsent;
  }

  #send(): void {
    const message = this.#unsent;
    this.#unsent = undefined;
    if (message !== undefined) this.#worker?.postMessage(message);
  }
}

/** A request that a thread sends. */
class ThreadRequest implements PendingRequest {
  readonly ended: Promise<SendResult>;
  readonly cancel: () => void;
  waitedMs = 0;
  #resolve: (result: SendResult) => void = ignore;

  constructor(cancel: () => void) {
    this.cancel = cancel;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  end(result: SendResult, waitedMs: number): void {
    this.waitedMs = waitedMs;
    this.#resolve(result);
  }
}

/**
 * Returns the template as a thread needs it: the credentials for access tokens and the secrets that are
 * removed from error messages stay here.
 */
function sendable(template: RequestTemplate): RequestTemplate {
  return { ...template, token: undefined, secrets: [] };
}

function unchanged<T>(value: T): T {
  return value;
}

function ignore(): void {}

/** Numbers for objects that are sent to a thread once and named by number from then on. */
class References {
  readonly #max: number;
  /** Oldest first. */
  readonly #numbers = new Map<object, number>();
  #last = 0;

  /** @param max objects that have a number; the oldest one loses it when there are more */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Returns the number of an object; passes a new one to `added`, and the number that is free then to
   * `removed`.
   */
  of(
    value: object,
    added: (reference: number) => void,
    removed: (reference: number) => void,
  ): number {
    const known = this.#numbers.get(value);
    if (known !== undefined) return known;
    this.#last += 1;
    this.#numbers.set(value, this.#last);
    added(this.#last);
    const [oldest] = this.#numbers.size > this.#max ? this.#numbers : [];
    if (oldest !== undefined) {
      this.#numbers.delete(oldest[0]);
      removed(oldest[1]);
    }
    return this.#last;
  }
}
