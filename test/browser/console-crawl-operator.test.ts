import { testRole } from './console-crawl-roles.ts';

testRole(
  'operator',
  { first: 392, second: 240 },
  { name: 'other pages', isWithin: (path) => !path.startsWith('/console/streams') },
);
