// GS1 keys: what is a GTIN, what may a serial be. Digits and bytes only; who owns them is the cloud's to know.
import { saying } from "./sayings.ts";
import { Refusal } from "./errors.ts";

const LENGTHS = new Set([8, 12, 13, 14]);

/** Weighs from the right: 3, 1, 3, 1 … over all digits but the last. */
const checkDigit = (digits: string): number => {
  const sum = digits.split("").reduceRight((total, digit, i) => total + Number(digit) * ((digits.length - i) % 2 === 1 ? 3 : 1), 0);
  return (10 - (sum % 10)) % 10;
};
export const withCheckDigit = (digits: string): string => `${digits}${checkDigit(digits)}`;

/** What is wrong with it, as a sentence's end; undefined when it is a GTIN. */
export function gtinFault(gtin: string): string | undefined {
  if (!/^[0-9]+$/.test(gtin)) return saying("digits_only");
  if (!LENGTHS.has(gtin.length)) return saying("gtin_length");
  const expected = checkDigit(gtin.slice(0, -1));
  return Number(gtin.at(-1)) === expected ? undefined : saying("wrong_check_digit", { digit: gtin.at(-1) ?? "", right: expected });
}

/** The one form that is stored and compared: 14 digits. */
export const gtin14 = (gtin: string): string => gtin.padStart(14, "0");

const SERIAL_MAX_LENGTH = 20; // application identifier 21, and the bound of SGTIN-96's sibling encodings
const SERIAL_CHARACTERS = /^[!"%&'()*+,\-./0-9:;<=>?A-Z_a-z]+$/; // GS1's character set 82

/** Of a lot and a variant as well; why an EPC asks for as much concerns a serial alone. */
export function qualifierFault(value: string, most = SERIAL_MAX_LENGTH): string | undefined {
  if (value.length > most) return saying("at_most_characters", { most });
  if (!SERIAL_CHARACTERS.test(value)) return saying("gs1_characters");
  // As a path segment it would mean "here" or "one up", and no link to it could ever resolve.
  return value === "." || value === ".." ? saying("no_dots") : undefined;
}

export const serialFault = (serial: string): string | undefined =>
  serial.length > SERIAL_MAX_LENGTH ? saying("sgtin_bound", { most: SERIAL_MAX_LENGTH }) : qualifierFault(serial);

/** SGTIN-96: how many bits the company prefix takes at each partition; its digits are 12 minus the partition, the item's fill up 44 bits. */
const PREFIX_BITS = [40, 37, 34, 30, 27, 24, 20] as const;
const ITEM_AND_PREFIX_BITS = 44;
const HEADER = 0x30n;
const SERIAL_BITS = 38n;
/** The largest serial that 38 bits hold. */
const SERIAL_MAX_NUMBER = 2n ** SERIAL_BITS - 1n;

/** Why this serial can't be the number in an EPC; a link carries it all the same. */
export function epcSerialFault(serial: string): string | undefined {
  if (!/^[0-9]+$/.test(serial)) return "is not a number";
  if (serial.length > 1 && serial.startsWith("0")) return "has leading zeros, which an EPC would lose";
  return BigInt(serial) > SERIAL_MAX_NUMBER ? `is above ${SERIAL_MAX_NUMBER}, the most that 38 bits hold` : undefined;
}

type Sgtin = { gtin: string; serial: string; companyPrefixLength: number; filter: number };
const noEpc = (reason: string) => new Refusal("EPC_UNAVAILABLE", reason);

/** The EPC of an item as 24 hex digits. How many digits are the company's can't be seen in a GTIN: another split is another EPC. */
export function encodeSgtin96({ gtin: given, serial, companyPrefixLength, filter }: Sgtin): string {
  const fault = gtinFault(given);
  if (fault) throw noEpc(`the GTIN ${given} ${fault}`);
  const gtin = gtin14(given); // the digits are counted from its front
  const serialIsUnfit = epcSerialFault(serial);
  if (serialIsUnfit) throw noEpc(`the serial ${serial} ${serialIsUnfit}`);
  const partition = 12 - companyPrefixLength;
  const bits = Number.isInteger(companyPrefixLength) ? PREFIX_BITS[partition] : undefined; // "7", which JavaScript counts with, would split elsewhere
  if (bits === undefined) throw noEpc(`a company prefix has 6 to 12 digits, not ${companyPrefixLength}`);
  if (!Number.isInteger(filter) || filter < 0 || filter > 7) throw noEpc(`the filter ${filter} isn't 0 to 7`);
  const prefix = gtin.slice(1, 1 + companyPrefixLength);
  const item = gtin.slice(0, 1) + gtin.slice(1 + companyPrefixLength, 13);
  const both = (BigInt(prefix) << BigInt(ITEM_AND_PREFIX_BITS - bits)) | BigInt(item);
  const head = (HEADER << 6n) | (BigInt(filter) << 3n) | BigInt(partition);
  const epc = (((head << BigInt(ITEM_AND_PREFIX_BITS)) | both) << SERIAL_BITS) | BigInt(serial);
  return epc.toString(16).toUpperCase().padStart(24, "0");
}

/** The item that an EPC names; refuses what isn't an SGTIN-96 or has digits that don't fit their partition. */
export function decodeSgtin96(hex: string): Sgtin {
  if (!/^[0-9A-Fa-f]{24}$/.test(hex)) throw noEpc(`${hex} isn't 24 hex digits`);
  const epc = BigInt(`0x${hex}`);
  const field = (from: number, bits: number) => (epc >> BigInt(96 - from - bits)) & (2n ** BigInt(bits) - 1n);
  if (field(0, 8) !== HEADER) throw noEpc(`${hex} has another header than SGTIN-96: ${hex.slice(0, 2)}, not 30`);
  const partition = Number(field(11, 3));
  const bits = PREFIX_BITS[partition];
  if (bits === undefined) throw noEpc(`${hex} has partition ${partition}, and there are 0 to 6`);
  const companyPrefixLength = 12 - partition;
  const prefix = field(14, bits).toString().padStart(companyPrefixLength, "0");
  const item = field(14 + bits, ITEM_AND_PREFIX_BITS - bits)
    .toString()
    .padStart(partition + 1, "0");
  if (prefix.length > companyPrefixLength || item.length > partition + 1)
    throw noEpc(`${hex} has numbers too large for partition ${partition}`);
  const gtin = withCheckDigit(item.slice(0, 1) + prefix + item.slice(1));
  return { gtin, serial: field(58, Number(SERIAL_BITS)).toString(), companyPrefixLength, filter: Number(field(8, 3)) };
}

/** A value as GS1's grammar wants it in a link: all but letters, digits, - . and _ is escaped, these five too, which URIs could bear. */
const inLink = (value: string): string =>
  encodeURIComponent(value).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);

type Qualifiers = { cpv?: string | undefined; lot?: string | undefined; serial?: string | undefined; tpx?: string | undefined };
/** The link that a label's symbol holds; the qualifiers, in their order, say what of the GTIN it names. */
export const digitalLink = (origin: string, gtin: string, { cpv, lot, serial, tpx }: Qualifiers = {}): string => {
  const part = (ai: string, value: string | undefined) => (value === undefined ? "" : `/${ai}/${inLink(value)}`);
  return `${origin}/01/${gtin}${part("22", cpv)}${part("10", lot)}${part("21", serial)}${part("235", tpx)}`;
};
