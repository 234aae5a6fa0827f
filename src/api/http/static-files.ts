import { createHash } from 'node:crypto';

/** A file of a page, under a path that contains a hash of its bytes. */
export interface StaticFile {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
}

/** Returns `docs.js` in `/docs/` as `/docs/docs.<hash>.js`, which clients may cache for ever. */
export function staticFile(folder: string, name: string, bytes: Buffer): StaticFile {
  const dot = name.lastIndexOf('.');
  return {
    path: `${folder}${name.slice(0, dot)}.${hashOf(bytes)}${name.slice(dot)}`,
    headers: fileHeaders(name),
    bytes,
  };
}

/** Returns the headers of a file whose path has a hash of its bytes. Throws for an unknown type. */
export function fileHeaders(name: string): Readonly<Record<string, string>> {
  const extension = name.slice(name.lastIndexOf('.'));
  const type = types[extension];
  if (type === undefined) throw new Error(`${name}: no media type is known for ${extension}`);
  return {
    'content-type': type,
    'cache-control': 'public, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  };
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Returns 60 bits of a SHA-256 hash: enough to distinguish versions of a file. */
export function hashOf(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 15);
}

/**
 * Replaces the SVG images that a style sheet embeds (`url("data:image/svg+xml,…")`), which the policy
 * of our pages forbids. `addFile` receives each image once and returns its path. Images of any other
 * type are dropped.
 */
export function withoutDataUrls(css: string, addFile: (svg: string) => string): string {
  const paths = new Map<string, string>();
  return css.replaceAll(DATA_URL, (_whole, quoted?: string) => {
    const svg = quoted === undefined ? undefined : svgOf(quoted);
    if (svg === undefined) return 'none';
    const path = paths.get(svg) ?? addFile(svg);
    paths.set(svg, path);
    return `url("${path}")`;
  });
}

const DATA_URL = /url\(\s*(?:"(data:(?:[^"\\]|\\.)*)"|'?data:[^)]*)\s*\)/gs;

/** Returns the SVG text of a CSS string `data:image/svg+xml;charset=utf-8,<svg …>`. */
function svgOf(url: string): string | undefined {
  const text = /^data:image\/svg\+xml(?:;charset=utf-8)?,(?<svg>.*)$/s.exec(url)?.groups?.['svg'];
  return text === undefined ? undefined : decodeURIComponent(text.replaceAll(/\\(.)/gs, '$1'));
}
