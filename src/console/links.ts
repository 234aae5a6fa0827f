/** Paths of the pages. */
export const pagePaths = [
  '/console',
  '/console/first',
  '/console/access',
  '/console/nodes',
  '/console/settings',
  '/console/words',
  '/console/users',
  '/console/users/:id',
  '/console/logs',
  '/console/logs/:id',
  '/console/publish',
  '/console/streams',
  '/console/streams/:id',
  '/console/events',
  '/console/events/:id',
  '/console/failures',
  '/console/redeliveries',
  '/console/redeliveries/:id',
  '/console/dismissals/:id',
] as const;

export type PagePath = (typeof pagePaths)[number];

/**
 * Matches the addresses of the pages. Only links to them stay within the document: the browser opens all
 * other addresses itself, also those that the server has below `/console/`, such as the sign-in at an
 * identity provider.
 */
export const pageAddresses = new RegExp(
  `^(?:${pagePaths.map((path) => path.replace(':id', '[^/?#]+')).join('|')})/?(?:[?#]|$)`,
);

/** Addresses of the pages. */
export const links = {
  overview: '/console/',
  first: '/console/first',
  streams: '/console/streams',
  stream: (id: string): string => `/console/streams/${id}`,
  failures: '/console/failures',
  failuresOfStream: (streamId: string): string => `/console/failures?stream=${streamId}`,
  failuresOf: (streamId: string, code: string | null): string =>
    `/console/failures?stream=${streamId}&code=${code ?? ''}`,
  events: '/console/events',
  event: (id: string): string => `/console/events/${encodeURIComponent(id)}`,
  redeliveries: '/console/redeliveries',
  redelivery: (id: string): string => `/console/redeliveries/${id}`,
  dismissals: '/console/dismissals',
  dismissal: (id: string): string => `/console/dismissals/${id}`,
  publish: '/console/publish',
  logs: '/console/logs',
  log: (id: string): string => `/console/logs/${id}`,
  logsOfTarget: (id: string): string => `/console/logs?target=${encodeURIComponent(id)}`,
  logsOfClient: (id: string): string => `/console/logs?client=${encodeURIComponent(id)}`,
  access: '/console/access',
  client: (id: string): string => `/console/access?tab=clients&q=${encodeURIComponent(id)}`,
  users: '/console/users',
  user: (id: string): string => `/console/users/${encodeURIComponent(id)}`,
  nodes: '/console/nodes',
  settings: '/console/settings',
  words: '/console/words',
} as const;
