// Before uPlot loads: it hands Intl whatever the browser calls its language, and Chromium's name of the C locale, "en-US@posix", is refused. The page would stay empty.
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
