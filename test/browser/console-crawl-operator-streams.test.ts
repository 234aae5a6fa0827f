import { testRole } from './console-crawl-roles.ts';

testRole(
  'operator',
  { first: 405, second: 155 },
  { name: 'pages of streams', isWithin: (path) => path.startsWith('/console/streams') },
);
