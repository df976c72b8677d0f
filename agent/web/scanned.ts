// What the console takes for a label wherever it is scanned, so that nobody's badge may be like it.

/** A label says a link; everything else is somebody's badge. */
export const isLink = (text: string): boolean => /^(\][A-Za-z]\d)?http/i.test(text);
