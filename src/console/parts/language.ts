/**
 * In containers and kiosks a browser can have a language that `Intl` refuses, such as `en-US@posix`. A
 * library that asks for it while it is read, as uPlot does, could not be used. The console writes numbers
 * and times in one form itself, whatever the language is.
 */
try {
  Intl.NumberFormat.supportedLocalesOf(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-GB', configurable: true });
}
