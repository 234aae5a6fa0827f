import { readFileSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { authority, trusted } from './certificates.ts';
import { type Program, startProgram } from './program.ts';

/** The proxies of `deploy/` as real programs, in front of real nodes. */

export type ProxyName = 'nginx' | 'caddy';

export interface ReverseProxy extends Program {
  /** `https://localhost:<port>` */
  readonly url: string;
  readonly port: number;
}

/** Ports on loopback: that of the proxy, and those of the two nodes for each API. */
export interface ProxyPorts {
  readonly port: number;
  readonly nodes: readonly [number, number];
  readonly messages: readonly [number, number];
}

/** Starts a proxy with its file of `deploy/`; the message API is at the host `messages.localhost`. */
export async function startReverseProxy(name: ProxyName, ports: ProxyPorts): Promise<ReverseProxy> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-proxy-'));
  await writeFile(join(folder, 'cert.pem'), trusted.cert);
  await writeFile(join(folder, 'key.pem'), trusted.key, { mode: 0o600 });
  const file = join(folder, 'proxy.conf');
  const { port } = ports;
  const setup = { ...ports, folder };
  await writeFile(file, name === 'nginx' ? nginxConfig(setup) : caddyConfig(setup));
  const args =
    name === 'nginx'
      ? ['-p', folder, '-c', file, '-e', 'stderr']
      : ['run', '--config', file, '--adapter', 'caddyfile'];
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    XDG_DATA_HOME: folder,
    XDG_CONFIG_HOME: folder,
  };
  // Its workers end with it.
  const end = { signal: 'QUIT' } as const;
  const program = await startProgram(name, { args, folder, port, env, end });
  return { ...program, url: `https://localhost:${port}`, port };
}

interface Setup extends ProxyPorts {
  readonly folder: string;
}

/** Returns the file of `deploy/` with the addresses of a test in place of those of the example. */
function adapted(file: string, replacements: readonly (readonly [string, string])[]): string {
  let text = readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8');
  for (const [example, own] of replacements) {
    if (!text.includes(example)) throw new Error(`deploy/${file} has no ${example}`);
    text = text.replaceAll(example, own);
  }
  return text;
}

function nodeAddresses({ nodes, messages }: ProxyPorts): [string, string][] {
  return [
    ['10.0.0.11:8080', `127.0.0.1:${nodes[0]}`],
    ['10.0.0.12:8080', `127.0.0.1:${nodes[1]}`],
    ['10.0.0.11:6060', `127.0.0.1:${messages[0]}`],
    ['10.0.0.12:6060', `127.0.0.1:${messages[1]}`],
  ];
}

function nginxConfig(setup: Setup): string {
  const { folder, port } = setup;
  const adaptedText = adapted('nginx.conf', [
    ...nodeAddresses(setup),
    ['listen 443', `listen 127.0.0.1:${port}`],
    ['events.example.com', 'localhost'],
    ['messages.example.com', 'messages.localhost'],
    ['/etc/ssl/leat/', `${folder}/`],
  ]);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((part) => `${part}_temp_path ${folder}/${part};`)
    .join(' ');
  // The workers of root would be another user, who cannot enter the folder.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  return `daemon off; ${user} pid ${folder}/pid; worker_processes 1; error_log stderr warn;
    events { worker_connections 256; }
    http { access_log off; ${temporary}\n${adaptedText}\n}\n`;
}

function caddyConfig(setup: Setup): string {
  const { folder, port } = setup;
  const start = `{\n\tbind 127.0.0.1\n\ttls ${folder}/cert.pem ${folder}/key.pem`;
  const adaptedText = adapted('Caddyfile', [
    ...nodeAddresses(setup),
    ['events.example.com {', `https://localhost:${port} ${start}`],
    ['messages.example.com {', `https://messages.localhost:${port} ${start}`],
  ]);
  return `{\n\tadmin off\n\tauto_https off\n}\n${adaptedText}`;
}

/** Sends a request to a proxy over HTTP/1.1; returns the response, whose body is read by the caller. */
export async function sendSecurely(
  url: string,
  {
    body,
    ...options
  }: Pick<RequestOptions, 'method' | 'headers' | 'localAddress'> & { readonly body?: string } = {},
): Promise<IncomingMessage> {
  const agent = new Agent({ ca: authority, keepAlive: false });
  const request = httpsRequest(url, { ...options, agent, family: 4, servername: 'localhost' });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return response;
}

/** Reads the body of a response as text. */
export async function readText(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
}
