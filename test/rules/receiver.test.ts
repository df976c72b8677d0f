// The receiver that a person starts shows what comes, and says why it refuses what it doesn't believe.
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";

const SECRET = "whsec_c2VjcmV0";

test("who starts it with the wrong secret is told so", async () => {
  const child = spawn(process.execPath, ["fixtures/receiver.ts", "--secret", SECRET, "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    child.kill();
    await once(child, "exit");
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const said = async () => (await lines.next()).value as string;
  const url = (await said()).replace("listening at ", "");
  const send = (secret: string, at = Math.floor(Date.now() / 1000)) => {
    const body = '{"id":"e1","type":"product.created","data":{}}';
    const signature = createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
    return fetch(url, {
      method: "POST",
      body,
      headers: { "x-service-delivery": "d1", "x-service-signature-v2": `t=${at},v2=${signature}` },
    });
  };
  expect((await send("whsec_another")).status).toBe(401);
  expect(await said()).toBe("refused: the signature is wrong");
  expect((await send(SECRET, 1_000)).status).toBe(401);
  expect(await said()).toBe("refused: the timestamp is more than five minutes off");
  expect((await send(SECRET)).status).toBe(204);
  expect(await said()).toBe("product.created e1 {}");
});
