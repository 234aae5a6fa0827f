import { testRole } from './console-crawl-roles.ts';

testRole(
  'operator',
  { first: 408, second: 158 },
  { name: 'pages of streams', isWithin: (path) => path.startsWith('/console/streams') },
);
