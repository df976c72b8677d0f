// A port tells the truth about bytes: what left, what came, why it ended; over real sockets, pseudo-terminals and FIFOs.
import { execFileSync } from "node:child_process";
import { closeSync, constants, existsSync, openSync, readFileSync, readSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Clock, systemClock } from "../../agent/clock.ts";
import { duplex, type Port } from "../../agent/duplex.ts";
import { openPort } from "../../agent/port.ts";
import { parsePort } from "../../agent/port-url.ts";
import { type Link, reconnecting } from "../../agent/reconnecting.ts";
import { startDeaf } from "../../fixtures/deaf.ts";
import { startDevice } from "../../fixtures/device.ts";
import { hasSocat, plugIn } from "../../fixtures/pty.ts";
import { freshFolder } from "../endings.ts";

/** A far end on TCP; each connection is handed to `meet`. */
async function listening(meet: (socket: Socket) => void) {
  const device = await startDevice(meet);
  onTestFinished(device.end);
  return device;
}
const opened = async (url: string, options = {}): Promise<Port> => {
  const port = await openPort(url, options);
  onTestFinished(() => port.destroy());
  return port;
};
const whyOf = (port: Port) => new Promise<{ by: string; words: string }>((resolve) => port.onClose(resolve));
const text = (port: Port, until: (text: string) => boolean) =>
  new Promise<string>((resolve) => {
    let got = "";
    port.onData((bytes) => {
      got += bytes.toString("latin1");
      if (until(got)) resolve(got);
    });
  });
const folder = () => {
  const made = freshFolder("port");
  return made;
};

describe("a port's URL", () => {
  test.each([
    ["tcp://127.0.0.1", "names no TCP port"],
    ["tcp://127.0.0.1:0", "names no TCP port"],
    ["tcp://:9100", "isn't of the form"],
    ["tcp:127.0.0.1:9100", "isn't of the form"],
    ["tcp://127.0.0.1:99999", "isn't of the form"],
    ["tcp://127.0.0.1:9100/raw", "something after the TCP port"],
    ["tcp://127.0.0.1:9100?x=1", "something after the TCP port"],
    ["serial:", "names no device"],
    ["serial:/dev/ttyS0?baud=fast", "baud=fast"],
    ["serial:/dev/ttyS0?baud=0", "baud=0"],
    ["serial:/dev/ttyS0?buad=9600", "unknown parameter buad"],
    ["serial:/dev/ttyS0?baud=9600&baud=115200", "says baud twice"],
    ["serial:/dev/ttyS0?parity=maybe", "one of none, even, odd"],
    ["serial:/dev/ttyS0?parity=toString", "one of none, even, odd"],
    ["file:lp0", "by its whole path"],
    ["file:/dev/usb/lp0?baud=1", "takes none"],
    ["ipp://127.0.0.1:631/printers/x", 'driver "ipp"'],
    ["https://127.0.0.1/frame.png", 'driver "camera"'],
    ["usb://0a5f", "unknown scheme usb:"],
    ["/dev/usb/lp0", "has no scheme"],
    ["", "has no scheme"],
  ])("%j is refused, and it is said why", (url, says) => expect(() => parsePort(url)).toThrow(says));

  test("is read as it is meant", () => {
    expect(parsePort("tcp://[::1]:9100")).toMatchObject({ kind: "tcp", host: "::1", port: 9100 });
    expect(parsePort("serial:/dev/serial/by-id/usb-x?baud=115200&parity=even&dataBits=7&dtr=on")).toMatchObject({
      path: "/dev/serial/by-id/usb-x",
      baud: 115_200,
      parity: "even",
      dataBits: 7,
      stopBits: 1,
      dtr: true,
      rts: undefined,
    });
    expect(parsePort("serial:COM3")).toMatchObject({ path: "COM3", baud: 9_600 });
    expect(parsePort("file:/dev/usb/lp0")).toEqual(parsePort("file:///dev/usb/lp0"));
  });
});

describe("over TCP", () => {
  test("bytes go both ways, in order, and what came before the first listener isn't lost", async () => {
    const { url } = await listening((socket) => {
      socket.write("hello ");
      socket.on("data", (bytes) => socket.write(bytes));
    });
    const port = await opened(url);
    const label = Buffer.alloc(300_000, "^XA");
    const written = await port.write(label);
    expect(written).toEqual({ accepted: label.length });
    expect(await text(port, (got) => got.length === label.length + 6)).toBe(`hello ${label.toString()}`);
  });

  test("two writers don't mix their bytes", async () => {
    const got: Buffer[] = [];
    const { url } = await listening((socket) => socket.on("data", (bytes) => got.push(bytes)));
    const port = await opened(url);
    await Promise.all([port.write(Buffer.alloc(50_000, "a")), port.write(Buffer.alloc(50_000, "b"))]);
    await port.end();
    await expect.poll(() => Buffer.concat(got).toString()).toBe("a".repeat(50_000) + "b".repeat(50_000));
  });

  test("a refused connection is told in words", async () => {
    const { url, end } = await startDevice();
    await end();
    await expect(openPort(url)).rejects.toThrow(/127\.0\.0\.1:\d+: nothing listens there.*ECONNREFUSED/);
  });

  test("a device that doesn't answer is given up after the connect timer", async () => {
    const due: (() => void)[] = [];
    const clock: Clock = { now: () => 0, after: (_ms, act) => (due.push(act), () => {}) };
    const opening = openPort("tcp://192.0.2.1:9100", { clock }); // a documentation address: nobody answers, or there is no way to it
    for (const act of due) act();
    await expect(opening).rejects.toThrow(/doesn't answer|no way to it/);
  });

  test("a device that doesn't answer is left at once by who goes", async () => {
    const deaf = await startDeaf();
    onTestFinished(deaf.end);
    const clock: Clock = { now: () => 0, after: () => () => {} }; // the connect timer never comes
    const leaving = new AbortController();
    const opening = openPort(deaf.url, { clock, leaving: leaving.signal });
    const line = reconnecting((signal) => openPort(deaf.url, { clock, leaving: signal }), { clock, onPort: () => {} });
    leaving.abort();
    await expect(opening).rejects.toThrow("closed by the agent");
    await line.end();
    expect(line.link().up).toBe(false);
  });

  test("a reset before the first byte leaves nothing accepted", async () => {
    const { url } = await listening((socket) => socket.resetAndDestroy());
    const port = await opened(url).catch((error: Error) => error);
    if (port instanceof Error) return expect(port.message).toContain("dropped the connection");
    expect((await whyOf(port)).words).toContain("dropped the connection");
    expect(await port.write(Buffer.from("label"))).toMatchObject({ accepted: 0, fault: expect.stringContaining("dropped the connection") });
  });

  test("a reset in the middle of a label is never counted as nothing", async () => {
    const { url } = await listening((socket) => socket.once("data", () => socket.resetAndDestroy()));
    const port = await opened(url);
    const label = Buffer.alloc(8_000_000, 1);
    const { accepted, fault } = await port.write(label);
    expect(fault).toMatch(/dropped the connection|no longer takes anything/);
    expect(accepted).toBeGreaterThan(0);
    expect(accepted).toBeLessThan(label.length);
  });

  test("a printer that stops reading stalls the write, not the agent: the count is what the kernel took", async () => {
    let far: Socket | undefined;
    const { url } = await listening((socket) => (far = socket.pause()));
    const port = await opened(url);
    const label = Buffer.alloc(30_000_000, 1);
    const first = await port.write(label, { stallMs: 200 });
    expect(first.fault).toContain("took nothing for 0.2 s");
    expect(first.accepted).toBeGreaterThan(0);
    expect(await port.write(Buffer.from("next"))).toEqual({ accepted: 0, fault: "an earlier write has not gone out yet" });
    let arrived = 0;
    far?.on("data", (bytes) => (arrived += bytes.length)).resume();
    await expect.poll(() => arrived).toBe(first.accepted);
    await expect.poll(async () => (await port.write(Buffer.from("next"))).accepted).toBe(4);
  });

  test("end() sends everything and a FIN; the other side sees no reset", async () => {
    const heard = Promise.withResolvers<number>();
    const { url } = await listening((socket) => {
      let bytes = 0;
      socket
        .on("data", (chunk) => (bytes += chunk.length))
        .on("end", () => heard.resolve(bytes))
        .on("error", heard.reject);
    });
    const port = await opened(url);
    void port.write(Buffer.alloc(200_000));
    await port.end();
    expect(await heard.promise).toBe(200_000);
    expect(port.closed).toEqual({ by: "us", words: "closed by the agent" });
    expect(await port.write(Buffer.from("late"))).toEqual({ accepted: 0, fault: "closed by the agent" });
  });

  test("what hasn't arrived when it was ended arrives yet, and once it is dropped nothing of it does", async () => {
    const clock: Clock = { now: () => Date.now(), after: (ms, act) => systemClock.after(ms / 50, act) };
    const arrived = async (isDropped: boolean) => {
      const far = Promise.withResolvers<Socket>();
      const { url } = await listening((socket) => far.resolve(socket.pause()));
      const port = await opened(url, { clock });
      const { accepted } = await port.write(Buffer.alloc(1_000_000), { stallMs: 5_000 });
      await port.end();
      expect(port.closed?.by).toBe("us");
      if (isDropped) port.destroy();
      await new Promise((resolve) => setTimeout(resolve, 50));
      let bytes = 0;
      const socket = await far.promise;
      const over = new Promise((resolve) => socket.on("error", resolve).on("end", resolve));
      socket.on("data", (chunk) => (bytes += chunk.length)).resume();
      await over;
      return bytes / accepted;
    };
    expect(await arrived(false)).toBe(1);
    expect(await arrived(true)).toBeLessThan(1);
  });

  test("an other side that hangs up is told apart from a fault", async () => {
    const { url } = await listening((socket) => socket.end());
    const port = await opened(url);
    expect(await whyOf(port)).toEqual({ by: "peer", words: expect.stringContaining("the other side closed the connection") });
    let again = "";
    port.onClose(({ by }) => (again = by)); // who asks late is told at once
    expect(again).toBe("peer");
  });
});

describe.skipIf(!hasSocat)("over a serial line", () => {
  const cable = async (in_ = folder()) => {
    const plugged = await plugIn(in_);
    onTestFinished(() => plugged.unplug());
    return plugged;
  };
  const serial = (path: string, query = "?baud=115200") => opened(`serial:${path}${query}`);

  test("bytes go both ways", async () => {
    const { near, far } = await cable();
    const [one, two] = [await serial(near), await serial(far, "?dtr=on&rts=off")];
    const heard = text(two, (got) => got.endsWith("."));
    expect(await one.write(Buffer.from("9506000134352."))).toEqual({ accepted: 14 });
    expect(await heard).toBe("9506000134352.");
    await one.end();
    expect(one.closed?.by).toBe("us");
  });

  test("a second program on the same line is refused in words", async () => {
    const { near } = await cable();
    await serial(near);
    await expect(serial(near)).rejects.toThrow("another program holds it");
  });

  test("a device that isn't there is refused in words", async () => {
    await expect(serial("/dev/imprimatur-nothing")).rejects.toThrow("there is no such device: is it plugged in?");
  });

  test("unplugged while idle: the port says so and takes nothing more", async () => {
    const plugged = await cable();
    const port = await serial(plugged.near);
    const why = whyOf(port);
    await plugged.unplug();
    expect(await why).toEqual({ by: "fault", words: expect.stringContaining("was it unplugged?") });
    expect(await port.write(Buffer.from("label"))).toMatchObject({ accepted: 0, fault: expect.stringContaining("unplugged") });
    await port.end(); // and ending what has ended is no fault
  });

  test("unplugged while it reads, twenty times over: every time it is noticed", async () => {
    const clock: Clock = { now: () => Date.now(), after: (ms, act) => systemClock.after(ms / 10, act) };
    for (let round = 0; round < 20; round += 1) {
      const plugged = await cable(folder());
      const [port, far] = [await opened(`serial:${plugged.near}`, { clock }), await opened(`serial:${plugged.far}`, { clock })];
      const gone = Promise.all([whyOf(port), whyOf(far)]);
      void far.write(Buffer.alloc(3_000, "x")); // some of it is on its way when the cable goes
      await new Promise((resolve) => setImmediate(resolve));
      await plugged.unplug();
      expect((await gone).map(({ by }) => by)).toEqual(["fault", "fault"]);
    }
  });

  test("unplugged while writing: the write ends with a count and a reason, though the library never calls back", async () => {
    const plugged = await cable();
    const port = await serial(plugged.near);
    const writing = port.write(Buffer.alloc(1_000_000, 1), { stallMs: 30_000 }); // nobody reads the far end: it stalls
    await new Promise((resolve) => setTimeout(resolve, 100));
    await plugged.unplug();
    const { accepted, fault } = await writing;
    expect(fault).toContain("unplugged");
    expect(accepted).toBeGreaterThan(0);
    expect(accepted).toBeLessThan(1_000_000);
  });

  test("a device that holds its flow control stalls the write, and the port can still be dropped", async () => {
    const { near } = await cable();
    const port = await serial(near);
    expect((await port.write(Buffer.alloc(1_000_000), { stallMs: 150 })).fault).toContain("took nothing");
    const why = whyOf(port);
    port.destroy();
    expect((await why).by).toBe("us");
  });

  test("replugged under the same name it comes back by itself, and that is told once", async () => {
    const where = folder();
    const plugged = await cable(where);
    const news: Link[] = [];
    const ports: Port[] = [];
    const line = reconnecting(() => openPort(`serial:${plugged.near}`), {
      pausesMs: [20],
      onPort: (port) => void ports.push(port),
      onLink: (link) => void news.push(link),
    });
    onTestFinished(() => line.end());
    await expect.poll(() => news.length).toBe(1);
    await plugged.unplug();
    await expect.poll(() => news.length).toBe(2);
    await new Promise((resolve) => setTimeout(resolve, 100)); // some vain tries
    const again = await cable(where);
    await expect.poll(() => news.length).toBe(3);
    expect(news.map(({ up }) => up)).toEqual([true, false, true]);
    const far = await serial(again.far);
    const heard = text(ports[1] as Port, (got) => got === "back");
    await far.write(Buffer.from("back"));
    expect(await heard).toBe("back");
  });
});
if (!hasSocat) process.stderr.write("SKIPPED: serial lines aren't tested, socat is missing (apt-get install socat)\n");

/** A device of the kernel's that is opened to be read as well, and can't be. */
const ONE_WAY = "/dev/loop-control";
describe("a device file", () => {
  test("a plain file takes the bytes behind what it has", async () => {
    const path = join(folder(), "out");
    writeFileSync(path, "first ");
    const port = await opened(`file:${path}`);
    expect(await port.write(Buffer.from("second"))).toEqual({ accepted: 6 });
    await port.end();
    expect(readFileSync(path, "utf8")).toBe("first second");
  });

  test("nothing is created, and a folder is no device", async () => {
    const where = folder();
    await expect(openPort(`file:${join(where, "absent")}`)).rejects.toThrow("there is no such device");
    await expect(openPort(`file:${where}`)).rejects.toThrow("it is a folder");
    await expect(openPort(`serial:${where}`)).rejects.toThrow(`${where}: it is a folder`);
  });

  test("a FIFO that nobody reads is refused; one that is full counts to the byte what it took", async () => {
    const path = join(folder(), "lp0");
    execFileSync("mkfifo", [path]);
    await expect(openPort(`file:${path}`)).rejects.toThrow("nothing is at the other end");
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const port = await opened(`file:${path}`);
    const { accepted, fault } = await port.write(Buffer.alloc(1_000_000, "x"), { stallMs: 100 });
    expect(fault).toContain("took nothing");
    const into = Buffer.alloc(2_000_000);
    expect(readSync(reader, into)).toBe(accepted);
    closeSync(reader);
    expect(await port.write(Buffer.from("more"))).toMatchObject({
      accepted: 0,
      fault: expect.stringContaining("no longer takes anything"),
    });
    expect((await whyOf(port)).by).toBe("fault");
  });

  test.skipIf(!existsSync(ONE_WAY) || process.getuid?.() !== 0)(
    "one that can't be read, as a USB printer without a way back, stays open",
    async () => {
      const port = await opened(`file:${ONE_WAY}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(port.closed).toBeUndefined();
    },
  );

  test.skipIf(!hasSocat)("a character device is read as well as written", async () => {
    const plugged = await plugIn(folder());
    onTestFinished(() => plugged.unplug());
    const [printer, port] = [await opened(`serial:${plugged.far}`), await opened(`file:${plugged.near}`)];
    const status = text(port, (got) => got === "ok");
    await port.write(Buffer.from("~HS"));
    expect(await text(printer, (got) => got.length === 3)).toBe("~HS");
    await printer.write(Buffer.from("ok"));
    expect(await status).toBe("ok");
    const why = whyOf(port);
    await plugged.unplug();
    expect(await why).toEqual({ by: "fault", words: expect.stringContaining("unplugged") });
  });
});

test("a clock that is set forward while a device takes nothing makes it no slower than it is", async () => {
  let [asked, off] = [0, 0];
  const clock = { ...systemClock, now: () => Date.now() + off };
  const port = duplex(clock, () => ({
    put: async (chunk) => {
      off += 3_600_000;
      return { accepted: (asked += 1) > 3 ? chunk.length : 0 };
    },
    finish: () => {},
    abort: () => {},
  }));
  expect(await port.write(Buffer.from("label"), { stallMs: 1_000 })).toEqual({ accepted: 5 });
});

describe("a port that comes back", () => {
  /** Time that moves when told. */
  const handClock = () => {
    const due: { at: number; act: () => void }[] = [];
    let now = 0;
    const clock: Clock = {
      now: () => now,
      after: (ms, act) => {
        const entry = { at: now + ms, act };
        due.push(entry);
        return () => void due.splice(0, due.length, ...due.filter((other) => other !== entry));
      },
    };
    const advance = (ms: number) => {
      now += ms;
      for (const entry of due.filter(({ at }) => at <= now)) {
        due.splice(due.indexOf(entry), 1);
        entry.act();
      }
    };
    return { clock, advance, waits: () => due.map(({ at }) => at - now) };
  };

  test("that is ended on a slow line has the time that its last bytes take, and no more", async () => {
    const { clock, advance, waits } = handClock();
    let isAborted = false;
    const port = duplex(clock, (sink) => ({
      put: async (chunk) => ({ accepted: chunk.length }),
      finish: () => {},
      abort: () => {
        isAborted = true;
        sink.closed({ by: "us", words: "" });
      },
      drainMs: 7_000,
    }));
    await port.write(Buffer.from("label"));
    const ended = port.end();
    await expect.poll(waits).toEqual([12_000]);
    advance(11_999);
    expect(isAborted).toBe(false);
    advance(1);
    await ended;
    expect(isAborted).toBe(true);
  });

  test("waits 1, 2, 5, 10, 30 and again 30 seconds, and tells of it once", async () => {
    const { clock, advance, waits } = handClock();
    const news: Link[] = [];
    const seen: number[] = [];
    const line = reconnecting(() => Promise.reject(new Error("nothing there")), {
      clock,
      onPort: () => {},
      onLink: (link) => void news.push(link),
    });
    for (let n = 0; n < 6; n++) {
      await expect.poll(() => waits().length).toBe(1);
      seen.push(waits()[0] ?? 0);
      advance(waits()[0] ?? 0);
    }
    expect(seen).toEqual([1_000, 2_000, 5_000, 10_000, 30_000, 30_000]);
    expect(news).toEqual([{ up: false, why: "nothing there" }]);
    await line.end();
    expect(waits()).toEqual([]);
  });

  test("a device that hangs up at once isn't back: the pauses grow; one that held begins again at 1 s", async () => {
    const sockets: Socket[] = [];
    const { url } = await listening((socket) => void sockets.push(socket));
    const { clock, advance, waits } = handClock();
    const open = () => openPort(url, { clock: systemClock });
    const line = reconnecting(open, { clock, onPort: () => {} });
    onTestFinished(() => line.end());
    for (const [held, pause] of [
      [0, 1_000],
      [0, 2_000],
      [60_000, 1_000],
    ] as const) {
      await expect.poll(() => line.link().up && sockets.length).toBe(1);
      advance(held);
      sockets.pop()?.end();
      await expect.poll(() => waits()).toEqual([pause]);
      advance(pause);
    }
  });
});
