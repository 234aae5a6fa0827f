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
  access: '/console/access',
  users: '/console/users',
  nodes: '/console/nodes',
  settings: '/console/settings',
} as const;
