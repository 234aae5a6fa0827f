import { useEffect, useRef, useState } from 'preact/hooks';
import { Code } from './parts/copy.tsx';
import { Notice } from './parts/notice.tsx';
import { queries } from './queries.ts';
import { openSession, redeemCode, resumeSession, type SessionState } from './session.ts';
import { hasUnsaved } from './unsaved.ts';

type Ended = Extract<SessionState, { readonly kind: 'signed-out' | 'ended' }>;

/** The page for somebody who is not signed in: the ways in, and why the last one failed. */
export function SignIn({ login, error, kind }: Ended) {
  useEffect(() => {
    document.title = 'Sign in · Leat';
    // What one person has read is not for the next.
    queries.clear();
    // A link that is opened in this tab changes the address only after the #.
    const retry = (): void => void openSession();
    const resume = (): void => void resumeSession();
    addEventListener('hashchange', retry);
    addEventListener('focus', resume);
    if (location.hash !== '') retry();
    return () => {
      removeEventListener('hashchange', retry);
      removeEventListener('focus', resume);
    };
  }, []);
  return (
    <main class="gate">
      <div class="panel stack">
        <div class="row">
          <img src={logo} width="32" height="32" alt="" />
          <h1>Sign in to Leat</h1>
        </div>
        {kind === 'ended' && (
          <Notice tone="info">
            Your session has ended.
            {hasUnsaved() &&
              ' What you have not saved is kept in this tab: sign in in another one, and come back.'}
          </Notice>
        )}
        {error !== undefined && <Notice tone="bad">{errors[error] ?? errors['failed']}</Notice>}
        {login !== undefined && <Provider login={login} />}
        <div class="stack-tight">
          {login === undefined ? null : <h2>Without the identity provider</h2>}
          <p>
            Run this where Leat runs. It prints a link that signs you in once, within 10 minutes:
          </p>
          <Code text="leat console" what="command" />
          <p class="muted">
            In a checkout of Leat: <code>npm run leat -- console</code>. With{' '}
            <code>--role viewer</code> the link is for somebody who may look only.
          </p>
        </div>
      </div>
    </main>
  );
}

type Asking = Extract<SessionState, { readonly kind: 'asking' }>;

/** The page of a one-time link. A page of another site could have led here, with a link of somebody else. */
export function AskToSignIn({ code, role, session }: Asking) {
  const heading = useRef<HTMLHeadingElement>(null);
  const [isSending, setSending] = useState(false);
  const accept = (): void => {
    setSending(true);
    void redeemCode(code);
  };
  useEffect(() => {
    document.title = 'Sign in · Leat';
    // What one person has read is not for the next.
    queries.clear();
    // Not on a button: nobody confirms it by typing on.
    heading.current?.focus();
  }, []);
  return (
    <main class="gate">
      <div class="panel stack">
        <img src={logo} width="32" height="32" alt="" />
        <h1 ref={heading} tabIndex={-1}>
          Sign in as {role} by this link?
        </h1>
        {session !== undefined && (
          <p class="wrap-anywhere">
            You are signed in to {session.tenant} as <strong>{session.user}</strong> ({session.role}
            ). That session ends if you sign in by the link, in every tab of this browser.
          </p>
        )}
        <p>Sign in only by a link that you asked for: any page can open one.</p>
        <div class="row">
          <button type="button" class="button primary" disabled={isSending} onClick={accept}>
            Sign in as {role}
          </button>
          <button type="button" class="button" onClick={() => void openSession()}>
            {session === undefined ? 'Cancel' : 'Stay signed in'}
          </button>
        </div>
      </div>
    </main>
  );
}

const logo = new URL('leat.svg', import.meta.url).href;

function Provider({ login }: { readonly login: string }) {
  const to = location.pathname + location.search;
  return (
    <a
      class="button primary"
      href={`${login}?to=${encodeURIComponent(to)}`}
      // Leaving this page would lose it.
      {...(hasUnsaved() ? { target: '_blank' } : {})}
    >
      Sign in with your identity provider
    </a>
  );
}

/** Why a sign-in failed, by the codes of docs/console.md. */
const errors: Readonly<Record<string, string>> = {
  link: 'This link was used already, or its 10 minutes are over. Make a new one.',
  access_denied: 'The identity provider refused the sign-in, or it was cancelled there.',
  no_role:
    'You are known to the identity provider, but no role here belongs to you. An operator gives one with LEAT_CONSOLE_ROLES.',
  provider_unavailable:
    'The identity provider does not respond. Try again, or use a one-time link.',
  unknown_host:
    'No tenant of this Leat has the host in the address of this page. A one-time link leads to the right one.',
  ambiguous_session:
    'This browser has cookies of two sessions for this address. Delete the cookies of this site, and sign in again.',
  expired: 'The sign-in took too long. Begin again.',
  failed: 'The sign-in failed. The log of Leat says why.',
};
