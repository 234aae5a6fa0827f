import { testRole } from './console-crawl-roles.ts';

testRole('support', { first: 475, second: 235 });
