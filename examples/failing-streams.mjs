// Prints the event streams of a tenant that are failing or disabled, every five minutes.
// Node 20 or newer, nothing to install. The client needs the scope read:event_streams.
//
//   LEAT_URL=https://leat.example.com LEAT_CLIENT_ID=… LEAT_CLIENT_SECRET=… node failing-streams.mjs
const { LEAT_URL: url, LEAT_CLIENT_ID: client_id, LEAT_CLIENT_SECRET: client_secret } = process.env;

async function request(path, init) {
  const response = await fetch(new URL(path, url), init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

async function poll() {
  const audience = '/api/v2/';
  const grant = { grant_type: 'client_credentials', client_id, client_secret, audience };
  const body = new URLSearchParams(grant);
  const { access_token: token } = await request('/oauth/token', { method: 'POST', body });
  const query = new URLSearchParams({ statuses: 'failing,disabled', take: '100' });
  let next;
  do {
    if (next !== undefined) query.set('from', next);
    const headers = { authorization: `Bearer ${token}` };
    const page = await request(`/api/v2/stream-health?${query}`, { headers });
    for (const { name, state, failures } of page.streams) {
      console.log(`${page.as_of} ${name}: ${state}, ${failures.open} open failures`);
    }
    next = page.next;
  } while (next !== undefined);
}

for (;;) {
  await poll().catch((error) => console.error(String(error)));
  await new Promise((resolve) => setTimeout(resolve, 300_000));
}
