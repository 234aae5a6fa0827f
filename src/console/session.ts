import { signal } from '@preact/signals';
import { say } from './parts/notice.tsx';
import { RequestFailed, sendTo } from './request.ts';
import { unsavedBelongTo } from './unsaved.ts';

/** Who uses the console, as `GET /console/session` returns it. */
export interface Session {
  readonly tenant: string;
  readonly domain: string;
  readonly user: string;
  readonly role: 'viewer' | 'support' | 'operator';
  readonly scopes: readonly string[];
  /** Operations that the role allows although it lacks their scope. */
  readonly operations: readonly string[];
  /** Whether payloads are withheld from the role. */
  readonly withheld?: true;
  readonly is_first_tenant: boolean;
  readonly ends_at: string;
  readonly version: string;
}

/** What signing in by a one-time link would change. */
interface Asked {
  /** The role of the link. */
  readonly role: Session['role'];
  /** The session that would end. */
  readonly session?: Session;
}

/** Whether somebody is signed in. `ended`: was, and may sign in again without losing the page. */
export type SessionState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'signed-in'; readonly session: Session }
  /** The address is that of a one-time link: any site can lead a browser to one. */
  | ({ readonly kind: 'asking'; readonly code: string } & Asked)
  | {
      readonly kind: 'signed-out' | 'ended';
      /** Where a sign-in with the identity provider begins; absent without one. */
      readonly login: string | undefined;
      /** Why the last sign-in failed: a code of docs/console.md. */
      readonly error?: string | undefined;
    }
  | { readonly kind: 'unreachable'; readonly error: unknown };

export const sessionState = signal<SessionState>({ kind: 'loading' });

/** Returns whether the address is that of a one-time link. */
export function hasCode(): boolean {
  return new URLSearchParams(location.hash.slice(1)).has('code');
}

/** Reads who is signed in, and asks before the code of a one-time link is used. Removes it from the URL. */
export async function openSession(): Promise<void> {
  const { code, error } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  // At once: a code must not stay in the history of the browser.
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  await (code === undefined ? readSession(error) : askAbout(code));
}

async function readSession(error: string | undefined): Promise<void> {
  try {
    signedIn((await sendTo('/console/session', { method: 'GET' })) as Session);
  } catch (thrown) {
    sessionState.value = stateAfter(thrown, error);
  }
}

async function askAbout(code: string): Promise<void> {
  await withCode(async () => {
    const body = { code, ask: true };
    const asked = await sendTo('/console/session', { method: 'POST', body });
    sessionState.value = { kind: 'asking', code, ...(asked as Asked) };
  });
}

/** Signs in by the code of a one-time link; the server ends the session that this replaces. */
export async function redeemCode(code: string): Promise<void> {
  await withCode(async () => {
    const session = await sendTo('/console/session', { method: 'POST', body: { code } });
    signedIn(session as Session);
  });
}

/** Does something with a code. One that is no good ends no session that the browser has. */
async function withCode(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (thrown) {
    if (!(thrown instanceof RequestFailed) || thrown.code !== 'invalid_code') {
      sessionState.value = stateAfter(thrown, 'link');
      return;
    }
    await readSession('link');
    if (sessionState.value.kind !== 'signed-in') return;
    say('The link was used already, or its 10 minutes are over: you stay signed in.', 'bad');
  }
}

/** Goes on when somebody has signed in in another tab since. */
export async function resumeSession(): Promise<void> {
  const request = sendTo('/console/session', { method: 'GET' }, { isBackground: true });
  const session = await request.catch(() => undefined);
  if (session !== undefined) signedIn(session as Session);
}

function signedIn(session: Session): void {
  const { tenant, user, role } = session;
  unsavedBelongTo(JSON.stringify([tenant, user, role]));
  sessionState.value = { kind: 'signed-in', session };
}

function stateAfter(thrown: unknown, error: string | undefined): SessionState {
  if (!(thrown instanceof RequestFailed) || thrown.status === 0 || thrown.status >= 500) {
    return { kind: 'unreachable', error: thrown };
  }
  const isOwn = thrown.code === 'unknown_host' || thrown.code === 'ambiguous_session';
  const reason = isOwn ? thrown.code : error;
  return { kind: 'signed-out', login: loginOf(thrown), error: reason };
}

function loginOf({ body: { login } }: RequestFailed): string | undefined {
  return typeof login === 'string' ? login : undefined;
}

/** Ends the session, here and at the server. */
export async function signOut(): Promise<void> {
  await sendTo('/console/session', { method: 'DELETE' });
  unsavedBelongTo();
  sessionState.value = { kind: 'signed-out', login: undefined };
  await openSession();
}

/** Called when a request was refused because the session has ended; the page stays as it is. */
export async function sessionEnded(): Promise<void> {
  if (sessionState.value.kind !== 'signed-in') return;
  try {
    await sendTo('/console/session', { method: 'GET' });
  } catch (thrown) {
    if (thrown instanceof RequestFailed && thrown.status === 401) {
      sessionState.value = { kind: 'ended', login: loginOf(thrown) };
    }
  }
}

/** Returns whether the session may call an operation: by its scope, or by the role itself. */
export function may(session: Session, scope: string, operation?: string): boolean {
  return (
    session.scopes.includes(scope) ||
    (operation !== undefined && session.operations.includes(operation))
  );
}

/** Does the same for whoever is signed in. */
export function isAllowed(scope: string, operation?: string): boolean {
  const { value } = sessionState;
  return value.kind === 'signed-in' && may(value.session, scope, operation);
}

/** Returns whether the session may see what concerns the service as a whole: nodes and settings. */
export function isFirstOperator({ is_first_tenant, role }: Session): boolean {
  return is_first_tenant && role === 'operator';
}
