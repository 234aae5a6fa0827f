import { render } from 'preact';
import { LocationProvider, Route, Router } from 'preact-iso';
import { useEffect } from 'preact/hooks';
import { followChanges } from './changes.ts';
import { after, startTicks } from './clock.ts';
import { keepFocus } from './focus.ts';
import { Guarded, lazyPage, readAhead } from './lazily.tsx';
import { NotFound } from './not-found.tsx';
import { Problem } from './parts/loaded.tsx';
import { Toasts } from './parts/notice.tsx';
import { hasCode, openSession, type Session, sessionState } from './session.ts';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';
import { applyTheme } from './theme.ts';

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
const Streams = lazyPage(async () => (await import('./streams.tsx')).Streams);

/** Until the first page is there, which has the network to itself. */
const readAheadMs = 1000;

/** The pages, for somebody who is signed in. */
function Pages({ session }: { readonly session: Session }) {
  useEffect(followChanges, []);
  useEffect(() => after(readAheadMs, () => void readAhead()), []);
  return (
    <Shell session={session}>
      <Guarded>
        <Router>
          <Route path="/console" component={Overview} />
          <Route path="/console/first" component={FirstDelivery} />
          <Route path="/console/access" component={Access} />
          <Route path="/console/nodes" component={Nodes} />
          <Route path="/console/settings" component={Settings} />
          <Route path="/console/users" component={Users} />
          <Route path="/console/users/:id" component={User} />
          <Route path="/console/logs" component={Logs} />
          <Route path="/console/logs/:id" component={Log} />
          <Route path="/console/publish" component={Publish} />
          <Route path="/console/streams" component={Streams} />
          <Route path="/console/streams/:id" component={Stream} />
          <Route path="/console/events" component={Events} />
          <Route path="/console/events/:id" component={EventPage} />
          <Route path="/console/failures" component={Failures} />
          <Route path="/console/redeliveries" component={Redeliveries} />
          <Route path="/console/redeliveries/:id" component={Redelivery} />
          <Route path="/console/dismissals/:id" component={Dismissal} />
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
    case 'signed-in':
      return <Pages session={value.session} />;
  }
}

function start(): void {
  const root = document.getElementById('root');
  if (root === null) return;
  applyTheme();
  startTicks(() => document.hidden);
  keepFocus();
  render(
    <LocationProvider scope="/console">
      <Console />
      <Toasts />
    </LocationProvider>,
    root,
  );
  void openSession();
  // A link that is opened in this tab changes the address only after the #; what the former session has
  // read goes with the page.
  addEventListener('hashchange', () => {
    if (sessionState.value.kind === 'signed-in' && hasCode()) location.reload();
  });
}

start();
