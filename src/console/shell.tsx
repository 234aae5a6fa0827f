import type { ComponentChildren } from 'preact';
import { useLocation } from 'preact-iso';
import { Jump } from './jump.tsx';
import { links } from './links.ts';
import { Icon, type IconName } from './parts/icon.tsx';
import { Notice, say } from './parts/notice.tsx';
import { isAway } from './queries.ts';
import { isFirstOperator, may, type Session, signOut } from './session.ts';
import { type Theme, theme } from './theme.ts';

interface Place {
  readonly text: string;
  readonly href: string;
  readonly icon: IconName;
  /** Where its further pages are. */
  readonly also?: readonly string[];
  /** Whether a role sees it. */
  readonly isFor: (session: Session) => boolean;
  readonly isApart?: boolean;
}

const needs =
  (scope: string) =>
  (session: Session): boolean =>
    may(session, scope);

const places: readonly Place[] = [
  { text: 'Overview', href: links.overview, icon: 'overview', isFor: () => true },
  { text: 'Streams', href: links.streams, icon: 'streams', isFor: () => true },
  {
    text: 'Failures',
    href: links.failures,
    icon: 'failures',
    also: [links.redeliveries, links.dismissals],
    isFor: () => true,
  },
  { text: 'Events', href: links.events, icon: 'events', isFor: needs('read:events') },
  { text: 'Publish', href: links.publish, icon: 'publish', isFor: needs('create:events') },
  {
    text: 'Audit log',
    href: links.logs,
    icon: 'logs',
    isFor: needs('read:logs'),
    isApart: true,
  },
  { text: 'Access', href: links.access, icon: 'access', isFor: needs('read:clients') },
  { text: 'Users', href: links.users, icon: 'users', isFor: needs('read:users') },
  { text: 'Nodes', href: links.nodes, icon: 'nodes', isFor: isFirstOperator, isApart: true },
  { text: 'Settings', href: links.settings, icon: 'settings', isFor: isFirstOperator },
];

/** The frame of every page. */
export function Shell({
  session,
  children,
}: {
  readonly session: Session;
  readonly children: ComponentChildren;
}) {
  const { path } = useLocation();
  const own = places.filter(({ isFor }) => isFor(session));
  return (
    <div class="shell">
      <a class="skip" href="#page">
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href={links.overview}>
          <img src={logo} width="24" height="24" alt="Leat" />
          <span class="tenant">{session.tenant}</span>
        </a>
        <Jump />
        <div class="right">
          <button
            type="button"
            class="button plain"
            popovertarget="user-menu"
            aria-label={`${session.user}, ${session.role}`}
          >
            <Icon name="user" />
            <span class="wide-only">{session.user}</span>
          </button>
          <UserMenu session={session} />
        </div>
      </header>
      <nav class="side" aria-label="Places">
        <ul class="places">
          {own.map((place) => (
            <li key={place.href} class={place.isApart === true ? 'apart' : ''}>
              <PlaceLink place={place} path={path} />
            </li>
          ))}
        </ul>
      </nav>
      <main id="page" tabIndex={-1}>
        {isAway.value && (
          <Notice tone="warn">
            <p role="status">
              Leat does not respond, or the network is down. Pages show what was read before, and
              are read again once it responds.
            </p>
          </Notice>
        )}
        {children}
      </main>
      <BottomBar places={own} path={path} />
    </div>
  );
}

const logo = new URL('leat.svg', import.meta.url).href;

function PlaceLink({ place, path }: { readonly place: Place; readonly path: string }) {
  const { text, href, icon, also = [] } = place;
  const isPresent = [href, ...also].some((at) => isAt(path, at));
  return (
    <a class="place" href={href} {...(isPresent ? { 'aria-current': 'page' } : {})}>
      <Icon name={icon} />
      <span>{text}</span>
    </a>
  );
}

function isAt(path: string, href: string): boolean {
  const place = href.replace(/\/$/, '');
  return path === place || (place !== '/console' && path.startsWith(`${place}/`));
}

/** On narrow screens: the first four places, and a menu of the others. */
function BottomBar({
  places: own,
  path,
}: {
  readonly places: readonly Place[];
  readonly path: string;
}) {
  const first = own.slice(0, 4);
  const others = own.slice(4);
  const close = (): void => document.getElementById('more-places')?.hidePopover();
  return (
    <nav class="bottom" aria-label="Places, at the bottom">
      {first.map((place) => (
        <PlaceLink key={place.href} place={place} path={path} />
      ))}
      <button type="button" class="place" popovertarget="more-places">
        <Icon name="more" />
        <span>More</span>
      </button>
      <div id="more-places" popover="auto" class="more-places">
        <ul class="places">
          {others.map((place) => (
            <li key={place.href} onClick={close}>
              <PlaceLink place={place} path={path} />
            </li>
          ))}
        </ul>
      </div>
    </nav>
  );
}

const themes: readonly (readonly [Theme, string])[] = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

function UserMenu({ session }: { readonly session: Session }) {
  return (
    <div id="user-menu" popover="auto" class="user-menu">
      <div class="stack-tight">
        <span class="strong wrap-anywhere">{session.user}</span>
        <span class="muted">
          {session.role} of {session.tenant}, {session.domain}
        </span>
      </div>
      <div class="segments" role="group" aria-label="Colours">
        {themes.map(([value, text]) => (
          <button
            key={value}
            type="button"
            aria-pressed={theme.value === value}
            onClick={() => (theme.value = value)}
          >
            {text}
          </button>
        ))}
      </div>
      <div class="stack-tight">
        <a href={links.words}>Words</a>
        <a href="/docs">API reference</a>
        <span class="meta">Leat {session.version}</span>
      </div>
      <div>
        <button
          type="button"
          class="button"
          onClick={() => void signOut().catch(() => say('The sign-out failed: try again.', 'bad'))}
        >
          Sign out
        </button>
      </div>
    </div>
  );
}
