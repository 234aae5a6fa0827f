/** Returns the words for an error code: a status, or the name of the cause. */
export function causeName(code: string | null): string {
  if (code === null) return 'unknown cause';
  return code.startsWith('http_') ? `HTTP ${code.slice(5)}` : code.replaceAll('_', ' ');
}
