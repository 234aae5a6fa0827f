import { testRole } from './console-crawl-roles.ts';

testRole('support', { first: 455, second: 230 });
