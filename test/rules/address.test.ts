// Where a webhook may go: every way to spell a door inside our own house is refused, before and after a name is looked up.
import { expect, test } from "vitest";
import { addressFault, urlFault } from "../../cloud/adapters/address.ts";

test.each(["https://erp.example.com/hook", "https://erp.example.com:8443/hook?a=b", "https://8.8.8.8/", "https://[2606:4700::1111]/"])(
  "%s may be told",
  (url) => expect(urlFault(url, false)).toBeUndefined(),
);

test.each([
  ["http://erp.example.com/", "must begin with https://"],
  ["ftp://erp.example.com/", "must begin with https://"],
  ["file:///etc/passwd", "must begin with https://"],
  ["javascript:alert(1)", "must begin with https://"],
  ["nonsense", "isn't a URL"],
  ["https://user:word@erp.example.com/", "can't hold a user name"],
  ["https://user@erp.example.com/", "can't hold a user name"],
  ["https://erp.example.com/\r\nX-Evil: 1", "can't hold spaces or control characters"],
  [" https://erp.example.com/", "can't hold spaces or control characters"],
  ["https://erp.example.com/#x", "can't have a fragment"],
  ["https://erp.example.com:22/", "can't go to port 22"],
  ["https://erp.example.com:80/", "can't go to port 80"],
  ["https://erp.example.com:25/", "can't go to port 25"],
  ["https://localhost/", "not a public name"],
  ["https://LOCALHOST./", "not a public name"],
  ["https://printer/", "not a public name"],
  ["https://metadata.google.internal/", "not a public name"],
  ["https://nas.local/", "not a public name"],
  ["https://127.0.0.1/", "loopback"],
  ["https://127.1/", "loopback"],
  ["https://2130706433/", "loopback"],
  ["https://0x7f000001/", "loopback"],
  ["https://0177.0.0.1/", "loopback"],
  ["https://0/", "unspecified"],
  ["https://10.1.2.3/", "private"],
  ["https://172.16.0.1/", "private"],
  ["https://192.168.0.1/", "private"],
  ["https://169.254.169.254/latest/meta-data", "linkLocal"],
  ["https://100.64.0.1/", "carrierGradeNat"],
  ["https://198.18.0.1/", "reserved"],
  ["https://224.0.0.1/", "multicast"],
  ["https://255.255.255.255/", "broadcast"],
  ["https://[::1]/", "loopback"],
  ["https://[::]/", "unspecified"],
  ["https://[::ffff:127.0.0.1]/", "loopback"],
  ["https://[::ffff:10.0.0.1]/", "private"],
  ["https://[::127.0.0.1]/", "not a public address"],
  ["https://[64:ff9b::7f00:1]/", "not a public address"],
  ["https://[64:ff9b:1::a00:1]/", "not a public address"],
  ["https://[2002:7f00:1::]/", "not a public address"],
  ["https://[2001::1]/", "not a public address"],
  ["https://[fe80::1]/", "linkLocal"],
  ["https://[fd00::1]/", "uniqueLocal"],
  ["https://[fec0::1]/", "not a public address"],
  ["https://[ff02::1]/", "multicast"],
  ["https://[100::1]/", "not a public address"],
  ["https://[4000::1]/", "not a public address"],
])("%s may not: %s", (url, why) => expect(urlFault(url, false)).toContain(why));

test.each([
  "http://127.0.0.1:9400/hook",
  "http://localhost:9400/",
  "http://receiver/",
  "https://10.0.0.7/",
  "http://[::1]:80/",
  "http://[fd00::1]/",
])("%s may be told where private addresses are let in", (url) => expect(urlFault(url, true)).toBeUndefined());

test.each([
  "http://169.254.169.254/latest/meta-data",
  "http://[fd00:ec2:0::254]/",
  "http://[::ffff:100.100.100.200]/",
  "http://168.63.129.16/",
  "http://0.0.0.0/",
  "http://224.0.0.1/",
  "ftp://10.0.0.7/",
  "http://u:p@10.0.0.7/",
])("%s may not even there", (url) => expect(urlFault(url, true)).toBeDefined());

test("what a resolver answers is judged as the address that is connected to", () => {
  expect(addressFault("93.184.215.14", false)).toBeUndefined();
  expect(addressFault("::ffff:192.168.0.1", false)).toContain("private");
  expect(addressFault("fe80::1%eth0", false)).toContain("linkLocal");
});
