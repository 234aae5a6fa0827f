import { testRole } from './console-crawl-roles.ts';

testRole('operator', { first: 750, second: 375 });
