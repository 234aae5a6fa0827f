/** Returns the field of carried JSON; nothing without any. */
export function carriedIn(carried: string | null | undefined): { carriedJson?: string } {
  return carried === null || carried === undefined ? {} : { carriedJson: carried };
}
