/** Returns a function that reports equal errors once: a damaged row stays damaged. */
export function reportOnce(report: (error: unknown) => void): (error: unknown) => void {
  const reported = new Set<string>();
  return (error) => {
    const text = String(error);
    if (reported.has(text)) return;
    reported.add(text);
    report(error);
  };
}
