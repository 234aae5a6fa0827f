import { domainToASCII, domainToUnicode } from 'node:url';

/**
 * Returns the one form of an e-mail address that several texts can write: Unicode in NFC, the domain as
 * UTS 46 maps it (lower case, without characters that show nothing), its A-labels (`xn--…`) as U-labels
 * (RFC 5890 section 2.3.2.1) and without the dot of an absolute name. The case of the local part stays. A text without `@` is returned in NFC.
 */
export function mailbox(text: string): string {
  const { local, domain } = partsOf(text.normalize('NFC'));
  return domain === undefined ? local : `${local}@${unicodeDomain(domain)}`;
}

/** Returns the form in which the e-mail of a user is stored and compared: {@link mailbox} in lower case. */
export function userEmail(text: string): string {
  return mailbox(text.toLowerCase());
}

/**
 * Returns the forms in which earlier versions may have stored an e-mail, the present one first. The text itself is one:
 * that they kept characters which a domain ignores can be seen by it alone.
 */
export function storedForms(text: string): readonly string[] {
  const email = userEmail(text);
  const literal = text.toLowerCase();
  const texts = [email, literal, literal.normalize('NFC')];
  const { local, domain } = partsOf(email);
  if (domain === undefined) return [...new Set(texts)];
  const domains = [domain, domain.normalize('NFD'), asciiDomain(domain)];
  const forms = domains
    .flatMap((form) => [form, `${form}.`])
    .flatMap((form) => [`${local}@${form}`, `${local.normalize('NFD')}@${form}`]);
  return [...new Set([...texts, ...forms])];
}

function partsOf(email: string): { readonly local: string; readonly domain?: string } {
  const at = email.lastIndexOf('@');
  if (at === -1) return { local: email };
  return { local: email.slice(0, at), domain: email.slice(at + 1) };
}

function unicodeDomain(domain: string): string {
  const ascii = asciiDomain(domain.toLowerCase());
  const name = isAsciiLabelled(ascii) ? domainToUnicode(ascii) || ascii : ascii;
  return name.replace(/(?<=[^.])\.$/, '').normalize('NFC');
}

/** Returns the domain with A-labels; unchanged where it is no domain name, such as an address. */
function asciiDomain(domain: string): string {
  const isName = /^[a-z0-9._\-\x80-\u{10FFFF}]+$/iu.test(domain);
  // A URL parser would make an address of a name such as 127.1.
  if (!isName || !(isAsciiLabelled(domain) || /[^\0-\x7F]/.test(domain))) return domain;
  return domainToASCII(domain) || domain;
}

function isAsciiLabelled(domain: string): boolean {
  return /(?:^|\.)xn--/.test(domain);
}
