import { type FunctionComponent, render } from 'preact';
import { LocationProvider, Route, Router } from 'preact-iso';
import { useEffect } from 'preact/hooks';
import { after, startTicks } from './clock.ts';
import { keepFocus } from './focus.ts';
import { Guarded, lazyPage, readAhead } from './lazily.tsx';
import { links, pageAddresses, type PagePath, pagePaths } from './links.ts';
import { Problem } from './parts/loaded.tsx';
import { Toasts } from './parts/notice.tsx';
import { hasCode, openSession, type Session, sessionState } from './session.ts';
import { Shell } from './shell.tsx';
import { AskToSignIn, SignIn } from './sign-in.tsx';
import { applyTheme } from './theme.ts';
import { Page } from './parts/page.tsx';

const EventPage = lazyPage(async () => (await import('./event.tsx')).EventPage);
const Events = lazyPage(async () => (await import('./events.tsx')).Events);
const Overview = lazyPage(async () => (await import('./overview.tsx')).Overview);
const Stream = lazyPage(async () => (await import('./stream.tsx')).Stream);
const FirstDelivery = lazyPage(async () => (await import('./first-delivery.tsx')).FirstDelivery);
const Access = lazyPage(async () => (await import('./access.tsx')).Access);
const Log = lazyPage(async () => (await import('./log.tsx')).Log);
const Logs = lazyPage(async () => (await import('./logs.tsx')).Logs);
const Publish = lazyPage(async () => (await import('./publish.tsx')).Publish);
const Failures = lazyPage(async () => (await import('./failures.tsx')).Failures);
const Redeliveries = lazyPage(async () => (await import('./redeliveries.tsx')).Redeliveries);
const Redelivery = lazyPage(async () => (await import('./redeliveries.tsx')).Redelivery);
const Dismissal = lazyPage(async () => (await import('./redeliveries.tsx')).Dismissal);
const Nodes = lazyPage(async () => (await import('./nodes.tsx')).Nodes);
const Settings = lazyPage(async () => (await import('./settings.tsx')).Settings);
const User = lazyPage(async () => (await import('./user.tsx')).User);
const Users = lazyPage(async () => (await import('./users.tsx')).Users);
const Words = lazyPage(async () => (await import('./words.tsx')).Words);
const Streams = lazyPage(async () => (await import('./streams.tsx')).Streams);

const pages: Readonly<Record<PagePath, FunctionComponent<{ readonly id: string }>>> = {
  '/console': Overview,
  '/console/first': FirstDelivery,
  '/console/access': Access,
  '/console/nodes': Nodes,
  '/console/settings': Settings,
  '/console/words': Words,
  '/console/users': Users,
  '/console/users/:id': User,
  '/console/logs': Logs,
  '/console/logs/:id': Log,
  '/console/publish': Publish,
  '/console/streams': Streams,
  '/console/streams/:id': Stream,
  '/console/events': Events,
  '/console/events/:id': EventPage,
  '/console/failures': Failures,
  '/console/redeliveries': Redeliveries,
  '/console/redeliveries/:id': Redelivery,
  '/console/dismissals/:id': Dismissal,
};

/** Until the first page is there, which has the network to itself. */
const readAheadMs = 1000;

/** The pages, for somebody who is signed in. */
function Pages({ session }: { readonly session: Session }) {
  useEffect(() => after(readAheadMs, () => void readAhead()), []);
  return (
    <Shell session={session}>
      <Guarded>
        <Router>
          {pagePaths.map((path) => (
            <Route key={path} path={path} component={pages[path]} />
          ))}
          <Route default component={NotFound} />
        </Router>
      </Guarded>
    </Shell>
  );
}

function Console() {
  const { value } = sessionState;
  switch (value.kind) {
    case 'loading':
      return null;
    case 'unreachable':
      return (
        <main class="gate">
          <div class="panel stack">
            <h1>Leat is out of reach</h1>
            <Problem error={value.error} retry={() => void openSession()} />
          </div>
        </main>
      );
    case 'signed-out':
    case 'ended':
      return <SignIn {...value} />;
    case 'asking':
      return <AskToSignIn {...value} />;
    case 'signed-in':
      return <Pages session={value.session} />;
  }
}

/** The page of an address that leads nowhere. */
function NotFound() {
  return (
    <Page title="Nothing here">
      <p>
        This address leads to no page of the console. <a href={links.overview}>Overview</a>
      </p>
    </Page>
  );
}

function start(): void {
  const root = document.getElementById('root');
  if (root === null) return;
  applyTheme();
  startTicks(() => document.hidden);
  keepFocus();
  render(
    <LocationProvider scope={pageAddresses}>
      <Console />
      <Toasts />
    </LocationProvider>,
    root,
  );
  void openSession();
  // A link that is opened in this tab changes the address only after the #; what the former session has
  // read goes with the page.
  addEventListener('hashchange', () => {
    const { kind } = sessionState.value;
    if (!hasCode()) return;
    if (kind === 'signed-in') location.reload();
    if (kind === 'asking') void openSession();
  });
}

start();
