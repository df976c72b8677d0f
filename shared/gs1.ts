// GS1 keys: what is a GTIN, what may a serial be. Digits and bytes only; who owns them is the cloud's to know.

const LENGTHS = new Set([8, 12, 13, 14]);

/** Weighs from the right: 3, 1, 3, 1 … over all digits but the last. */
const checkDigit = (digits: string): number => {
  const sum = digits.split("").reduceRight((total, digit, i) => total + Number(digit) * ((digits.length - i) % 2 === 1 ? 3 : 1), 0);
  return (10 - (sum % 10)) % 10;
};
export const withCheckDigit = (digits: string): string => `${digits}${checkDigit(digits)}`;

/** What is wrong with it, as a sentence's end; undefined when it is a GTIN. */
export function gtinFault(gtin: string): string | undefined {
  if (!/^[0-9]+$/.test(gtin)) return "must consist of digits only";
  if (!LENGTHS.has(gtin.length)) return "must have 8, 12, 13 or 14 digits";
  const expected = checkDigit(gtin.slice(0, -1));
  return Number(gtin.at(-1)) === expected ? undefined : `has a wrong check digit: ${gtin.at(-1)} stands where ${expected} belongs`;
}

/** The one form that is stored and compared: 14 digits. */
export const gtin14 = (gtin: string): string => gtin.padStart(14, "0");

export const SERIAL_MAX_LENGTH = 20; // application identifier 21, and the bound of SGTIN-96's sibling encodings
const SERIAL_CHARACTERS = /^[!"%&'()*+,\-./0-9:;<=>?A-Z_a-z]+$/; // GS1's character set 82

export function serialFault(serial: string): string | undefined {
  if (serial.length > SERIAL_MAX_LENGTH) return `must be at most ${SERIAL_MAX_LENGTH} characters, the SGTIN-96 bound`;
  if (!SERIAL_CHARACTERS.test(serial)) return "may only have letters A to Z, digits and ! \" % & ' ( ) * + , - . / : ; < = > ? _";
  // As a path segment it would mean "here" or "one up", and no link to it could ever resolve.
  return serial === "." || serial === ".." ? "can't be . or .., which a link can't carry" : undefined;
}
