/**
 * The baseline for the drain: an undici pool that posts the same bytes and does nothing else.
 * Arguments: port, count, connections. Reads the body text from the parent over IPC.
 */
import { Pool } from 'undici';

const [port, count, connections] = process.argv.slice(2).map(Number) as [number, number, number];

process.once('message', (message: { body: string; headers: Record<string, string> }) => {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
  let sent = 0;
  const worker = async (): Promise<void> => {
    while (sent < count) {
      sent++;
      const response = await pool.request({ path: '/', method: 'POST', ...message });
      await response.body.dump();
    }
  };
  void Promise.all(Array.from({ length: connections }, worker)).then(async () => {
    await pool.close();
    process.exit(0);
  });
});
