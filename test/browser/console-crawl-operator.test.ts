import { testRole } from './console-crawl-roles.ts';

testRole(
  'operator',
  { first: 330, second: 190 },
  { name: 'other pages', isWithin: (path) => !path.startsWith('/console/streams') },
);
