import { ManagementClient } from 'auth0';

/** A program of a user: names the tenant and lists its event streams. */

const setting = (name: string): string => process.env[name] ?? '';

const client = new ManagementClient({
  domain: setting('AUTH0_DOMAIN'),
  clientId: setting('AUTH0_CLIENT_ID'),
  clientSecret: setting('AUTH0_CLIENT_SECRET'),
});
const { data } = await client.eventStreams.list();
console.log(JSON.stringify(data));
