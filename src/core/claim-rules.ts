/** How tokens of another issuer are read: LEAT_TRUSTED_ISSUER_CLAIMS, TOKEN_CLAIMS, docs/identity-providers.md. */
import { claimPath, type ClaimPath } from './claim-path.ts';
import { issuerUrl, list, type Parse } from './value.ts';

/** Absent: as the tokens of Leat, with `azp` or `client_id`, `scope`, `permissions` and `aud`. */
export interface ClaimRules {
  /** The claim with the id of the client. */
  readonly client?: ClaimPath;
  /** The claims with scopes and with permissions: a string of words, or an array of strings. */
  readonly scope?: ClaimPath;
  readonly permissions?: ClaimPath;
  /** Only scopes and permissions that begin with it count, without it. In tokens without `aud` it stands for the audience. */
  readonly prefix?: string;
  /** The audience that tokens of this issuer have, in place of Leat's own. */
  readonly audience?: string;
}

type Name = keyof ClaimRules;

/** The rules of one issuer. */
export interface IssuerRules {
  readonly issuer: string;
  readonly rules: ClaimRules;
}

/** Parses `<name>=<value>`, separated by blanks. */
export function claimRules(...names: readonly Name[]): Parse<ClaimRules> {
  return (text) => {
    const found = new Map<string, ClaimPath | string>();
    for (const part of text.split(' ').filter((word) => word !== '')) {
      const [, name = '', value = ''] = /^(?<name>[^=]+)=(?<value>.+)$/.exec(part) ?? [];
      if (!names.some((each) => each === name)) {
        return {
          problem: `has something else than ${names.map((each) => `${each}=…`).join(', ')}`,
        };
      }
      if (found.has(name)) return { problem: `has ${name}= twice` };
      const parsed = name === 'prefix' || name === 'audience' ? value : claimPath(value);
      if (parsed === undefined)
        return { problem: 'has a JSON pointer with a ~ that is not ~0 or ~1' };
      found.set(name, parsed);
    }
    return { value: Object.fromEntries(found) };
  };
}

const rulesOfIssuer = claimRules('client', 'scope', 'prefix', 'audience');
const issuersMax = 100;

/** Parses `<issuer> <name>=<value> …`, separated by commas. */
export const issuerRules: Parse<readonly IssuerRules[]> = (text) => {
  const parsed = list(ruleOfIssuer, issuersMax)(text);
  if ('problem' in parsed) return parsed;
  const issuers = parsed.value.map(({ issuer }) => issuer);
  const repeated = issuers.findIndex((issuer, index) => issuers.indexOf(issuer) !== index);
  if (repeated < 0) return parsed;
  return { problem: `is wrong in item ${repeated + 1}: it has the issuer of an earlier item` };
};

const ruleOfIssuer: Parse<IssuerRules> = (text) => {
  const [issuerText = '', ...rest] = text.split(' ');
  const issuer = issuerUrl(issuerText);
  if ('problem' in issuer) return { problem: `begins with an issuer that ${issuer.problem}` };
  const rules = rulesOfIssuer(rest.join(' '));
  if ('problem' in rules) return rules;
  return { value: { issuer: issuer.value, rules: rules.value } };
};
