// The page's protocol and fold, on connections to servers made for each case. Run by test_page.py beside it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";

import { fleetLine, nodeLine } from "../../src/outlast/web/fleet.js";
import { Follow, MAX_FRAME, Parser, eventOf } from "../../src/outlast/web/outlast.js";
import { Transcript, brief, briefly } from "../../src/outlast/web/transcript.js";

const bytes = (text) => new TextEncoder().encode(text);
const chain = "0123456789abcdef";
const stored = (seq, type, data) => `event: ${type}\nid: ${seq}-${chain}\ndata: ${JSON.stringify(data)}\n\n`;
const control = (name, said) => `event: outlast.${name}\ndata: ${JSON.stringify(said)}\n\n`;
const hello = `: hello\n\n${control("hello", { boot_id: "b", protocol: 1, heartbeat: 10, head: "0" })}`;
const end = control("end", { head: "3" });

// ---- the parser ---------------------------------------------------------------------------------

const SAMPLE = bytes(
  '\ufeff: a comment\n\nevent: text\rid: 1-0123456789abcdef\r\ndata: "👩‍🚀 über"\r\r' +
    "data:no space\ndata:  two\ndata\n\nretry: 1500\n\n" +
    "id: a\0b\nunknown: x\nevent\ncontent-type: a/b\ndata: {}\r\n\r\n: end\n\ndata: unfinished",
);
const FRAMES = [
  { event: "text", id: "1-0123456789abcdef", data: '"👩‍🚀 über"', contentType: null },
  { event: "message", id: null, data: "no space\n two\n", contentType: null },
  { event: "message", id: null, data: "{}", contentType: "a/b" },
];

test("any split of a stream gives the same frames", () => {
  for (let cut = 0; cut <= SAMPLE.length; cut++) {
    const parser = new Parser();
    const frames = [...parser.push(SAMPLE.slice(0, cut)), ...parser.push(SAMPLE.slice(cut))];
    assert.deepEqual(frames, FRAMES, `cut at ${cut}`);
    assert.equal(parser.retry, 1500);
  }
  const slowly = new Parser();
  assert.deepEqual(
    [...SAMPLE].flatMap((byte) => slowly.push(Uint8Array.of(byte))),
    FRAMES,
  );
});

test("a line feed that opens a chunk belongs to the return before it, and only that one", () => {
  const parser = new Parser();
  assert.deepEqual(
    ["data: 1\r", "\n", "\ndata: 2\r", "\r"].map((text) => parser.push(bytes(text)).length),
    [0, 0, 1, 1],
  );
});

test("a retry that is no number of milliseconds is ignored", () => {
  const parser = new Parser();
  parser.push(bytes("retry: soon\nretry: -1\nretry: 9999999999\n\n"));
  assert.equal(parser.retry, null);
});

test("a frame that is too large ends the stream, after the frames before it", () => {
  for (const giant of [`data: ${"x".repeat(200)}`, `${"data: xxxxx\n".repeat(20)}`]) {
    const parser = new Parser(100);
    assert.equal(parser.push(bytes(`data: 1\n\n${giant}`)).length, 1);
    assert.equal(parser.overflowed, true);
    assert.deepEqual(parser.push(bytes("\n\ndata: 2\n\n")), []);
  }
  const parser = new Parser(100);
  assert.equal(parser.push(bytes("data: 12345\n\n".repeat(100))).length, 100);
  assert.equal(parser.overflowed, false);
});

test("bytes and JSON that server-sent events would bend come back as they were", () => {
  const frame = (contentType, text) => ({
    event: "x",
    id: "7",
    contentType,
    data: JSON.stringify({ data_base64: btoa(text) }),
  });
  assert.deepEqual(eventOf(frame("image/png", "\x00\xff\n")).data, Uint8Array.of(0, 255, 10));
  assert.deepEqual(eventOf(frame("application/json", '{"a":\n1}')).data, { a: 1 });
  assert.deepEqual(eventOf({ event: "x", id: "7", contentType: null, data: '"\\ud83d"' }).data, "\ud83d");
});

test("a frame without a place in the log is no event", () => {
  for (const id of [null, "", "x", "-1", "1-", `1-${chain}0`, `1 -${chain}`, "12345678901234567"]) {
    assert.throws(() => eventOf({ event: "text", id, data: "1", contentType: null }), SyntaxError, String(id));
  }
});

// ---- following ----------------------------------------------------------------------------------

const SSE = { "content-type": "text/event-stream" };

/** A clock that never waits: pauses end at once and are written down, alarms ring only where the test says so. */
class Hurried {
  pauses = [];
  time = 0;
  rings = (ms) => false;

  now = () => this.time;
  pause = (ms, ring) => (this.pauses.push(ms), this.#soon(ring));
  alarm = (ms, ring) => (this.rings(ms) ? this.#soon(ring) : () => {});

  #soon(ring) {
    const timer = setImmediate(ring);
    return () => clearImmediate(timer);
  }
}

/** A server that answers its n-th request with the n-th handler, and the last one from then on. */
async function serving(handlers, use) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.headers["last-event-id"] ?? null);
    handlers[Math.min(asked.length, handlers.length) - 1](response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`http://127.0.0.1:${server.address().port}/runs/r/events`, asked, server);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const whole = (text) => (response) => response.writeHead(200, SSE).end(text);
const cut = (text) => (response) => response.writeHead(200, SSE).write(text, () => response.destroy());
const refuse =
  (status, body = {}, headers = {}) =>
  (response) =>
    response.writeHead(status, { "content-type": "application/problem+json", ...headers }).end(JSON.stringify(body));

/** Follow to the end and return what was handed over. */
async function followed(url, options = {}, until = () => false) {
  const clock = options.clock ?? new Hurried();
  const follow = new Follow(url, { random: () => 1, ...options, clock });
  const items = [];
  for await (const item of follow) {
    items.push(item);
    if (until(item, items)) break;
  }
  const events = items.flatMap((item) => (item.kind === "events" ? item.events : []));
  return {
    items,
    events,
    seqs: events.map(({ seq }) => seq),
    links: items.filter(({ kind }) => kind === "link"),
    clock,
    follow,
  };
}

const RUN = stored(1, "run.started", {}) + stored(2, "text", "á 👩‍🚀") + stored(3, "run.completed", {});

test("a run is followed from its start to its end", async () => {
  await serving([whole(hello + RUN + control("caught-up", { head: "3" }) + end)], async (url, asked) => {
    const { links, events, items, follow } = await followed(url);
    assert.deepEqual(
      links.map(({ phase }) => phase),
      ["connecting", "live", "ended"],
    );
    assert.deepEqual(
      events.map(({ seq, type, data }) => [seq, type, data]),
      [
        [1, "run.started", {}],
        [2, "text", "á 👩‍🚀"],
        [3, "run.completed", {}],
      ],
    );
    assert.deepEqual(
      items.filter(({ kind }) => kind === "control").map(({ name }) => name),
      ["hello", "caught-up", "end"],
    );
    assert.equal(follow.cursor, `3-${chain}`);
    assert.deepEqual(asked, [null]);
  });
});

test("a stream cut at any byte is taken up exactly where it stopped", async () => {
  const stream = bytes(hello + RUN);
  const blocks = RUN.split(/(?<=\n\n)/);
  for (let place = 0; place < stream.length; place++) {
    const asked = [];
    const fetch = async (_, { headers }) => {
      asked.push(headers.get("last-event-id"));
      const broken = asked.length === 1;
      const rest = bytes(hello + blocks.slice(parseInt(asked.at(-1) ?? "0", 10)).join("") + end);
      const pull = (controller) => (broken ? controller.error(new TypeError("reset")) : controller.close());
      const start = (controller) => controller.enqueue(broken ? stream.subarray(0, place) : rest);
      return new Response(
        new ReadableStream({ start: place || !broken ? start : undefined, pull }, { highWaterMark: 0 }),
        { headers: SSE },
      );
    };
    const { seqs } = await followed("", { fetch });
    assert.deepEqual(seqs, [1, 2, 3], `cut at ${place}`);
    assert.equal(asked.length, 2);
  }
});

test("what comes twice is dropped", async () => {
  await serving(
    [
      cut(hello + stored(1, "text", "a") + stored(2, "text", "b")),
      whole(hello + stored(1, "text", "a") + stored(2, "text", "b") + stored(3, "run.completed", {}) + end),
    ],
    async (url, asked) => {
      const { seqs } = await followed(url);
      assert.deepEqual(seqs, [1, 2, 3]);
      assert.deepEqual(asked, [null, `2-${chain}`]);
    },
  );
});

test("a hole is never handed over", async () => {
  await serving(
    [
      whole(hello + stored(1, "text", "a") + stored(3, "run.completed", {}) + end),
      whole(hello + stored(2, "text", "b") + stored(3, "run.completed", {}) + end),
    ],
    async (url, asked) => {
      const { seqs, links } = await followed(url);
      assert.deepEqual(seqs, [1, 2, 3]);
      assert.equal(links[2].reason, "the stream is not what it should be");
      assert.deepEqual(asked, [null, `1-${chain}`]);
    },
  );
});

test("an end is not believed while the last events are missing", async () => {
  await serving(
    [
      whole(hello + stored(1, "text", "a") + end),
      whole(hello + stored(2, "text", "b") + stored(3, "run.completed", {}) + end),
    ],
    async (url, asked) => {
      const { seqs, links } = await followed(url);
      assert.deepEqual(seqs, [1, 2, 3]);
      assert.equal(links[2].reason, "the stream is not what it should be");
      assert.deepEqual(asked, [null, `1-${chain}`]);
    },
  );
});

test("the cursor moves only when the next item is asked for", async () => {
  await serving([whole(hello + RUN + end)], async (url) => {
    const { follow } = await followed(url, {}, (item) => item.kind === "events");
    assert.equal(follow.cursor, null);
  });
});

test("a server that accepts and hangs up is asked less and less often", async () => {
  await serving([whole(hello)], async (url) => {
    const { clock } = await followed(url, {}, (_, items) => items.filter(({ phase }) => phase === "lost").length === 7);
    assert.deepEqual(clock.pauses, [500, 1000, 2000, 4000, 8000, 8000]);
  });
});

test("the pauses are spread over the upper half of their step", async () => {
  await serving([whole(hello)], async (url) => {
    const { clock } = await followed(
      url,
      { random: () => 0 },
      (_, items) => items.filter(({ phase }) => phase === "lost").length === 3,
    );
    assert.deepEqual(clock.pauses, [250, 500]);
  });
});

test("an event or a heartbeat brings the pause back to its first step", async () => {
  const nothing = whole(hello);
  const some = [
    [stored(1, "text", "a"), stored(2, "text", "b") + stored(3, "run.completed", {})],
    [control("heartbeat", {}), RUN],
  ];
  for (const [sign, rest] of some) {
    await serving([nothing, nothing, whole(hello + sign), whole(hello + rest + end)], async (url) => {
      const { clock } = await followed(url);
      assert.deepEqual(clock.pauses, [500, 1000, 500]);
    });
  }
});

test("the server's own pause is a floor, and nonsense is none", async () => {
  const cases = [
    [whole("retry: 20000\n\n"), 25_000],
    [whole("retry: 100\n\n"), 500],
    [whole("retry: 400000\n\n"), 500],
    [refuse(503, {}, { "retry-after": "10" }), 12_500],
    [refuse(429, {}, { "retry-after": "soon" }), 500],
    [whole(hello + control("drain", { spread: 4 })), 5_000],
  ];
  for (const [handler, pause] of cases) {
    await serving([handler, whole(hello + RUN + end)], async (url) => {
      const { clock } = await followed(url);
      assert.deepEqual(clock.pauses, [pause]);
    });
  }
});

test("a floor holds for one pause", async () => {
  await serving([refuse(503, {}, { "retry-after": "10" }), refuse(503), whole(hello + RUN + end)], async (url) => {
    const { clock } = await followed(url);
    assert.deepEqual(clock.pauses, [12_500, 1_000]);
  });
});

test("a refusal is final and tells its code", async () => {
  await serving([refuse(404, { code: "run_not_found", detail: "There is no such run." })], async (url, asked) => {
    const { links } = await followed(url);
    assert.deepEqual(links.at(-1), {
      kind: "link",
      phase: "refused",
      status: 404,
      code: "run_not_found",
      detail: "There is no such run.",
    });
    assert.equal(asked.length, 1);
  });
});

test("a refusal without a document is told by its status", async () => {
  await serving([(response) => response.writeHead(410).end("gone")], async (url) => {
    const { links } = await followed(url);
    assert.equal(links.at(-1).code, "http_410");
  });
});

test("a server that is busy, broken or not itself is asked again", async () => {
  const page = (response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>a captive portal");
  await serving(
    [refuse(503), refuse(500), refuse(429), page, (response) => response.destroy(), whole(hello + RUN + end)],
    async (url) => {
      const { links, seqs } = await followed(url);
      const reasons = links.filter(({ phase }) => phase === "lost").map(({ reason }) => reason);
      assert.deepEqual(reasons, [
        "the server answered 503",
        "the server answered 500",
        "the server answered 429",
        "the answer is no stream",
        "the connection broke",
      ]);
      assert.deepEqual(seqs, [1, 2, 3]);
    },
  );
});

test("a cursor at the end of a finished run ends at once", async () => {
  await serving([(response) => response.writeHead(204).end()], async (url, asked) => {
    const { links } = await followed(url, { after: `3-${chain}` });
    assert.deepEqual(
      links.map(({ phase }) => phase),
      ["connecting", "ended"],
    );
    assert.deepEqual(asked, [`3-${chain}`]);
  });
});

test("after the terminal event a broken connection is the end too", async () => {
  for (const handler of [cut(hello + RUN), whole(hello + RUN)]) {
    await serving([handler], async (url, asked) => {
      const { links } = await followed(url);
      assert.equal(links.at(-1).phase, "ended");
      assert.equal(asked.length, 1);
    });
  }
});

test("two and a half heartbeats of silence end a connection", async () => {
  const mute = (response) => response.writeHead(200, SSE).write(hello + stored(1, "text", "a"));
  await serving([mute, whole(hello + stored(2, "run.completed", {}) + end)], async (url, asked) => {
    const clock = new Hurried();
    const alarms = [];
    const { seqs, links } = await followed(url, { clock }, (item) => {
      // From the first event on, every wait for more is a silence that lasts.
      if (item.kind === "events") clock.rings = (ms) => (alarms.push(ms), ms === 25_000 && asked.length === 1);
    });
    assert.equal(alarms[0], 25_000); // hello said 10 s
    assert.equal(links.find(({ phase }) => phase === "lost").reason, "nothing was heard any more");
    assert.deepEqual(seqs, [1, 2]);
    assert.deepEqual(asked, [null, `1-${chain}`]);
  });
});

test("a server that never answers is not waited for", async () => {
  await serving([() => {}], async (url) => {
    const clock = new Hurried();
    clock.rings = (ms) => ms === 15_000;
    const { links } = await followed(url, { clock }, ({ phase }) => phase === "lost");
    assert.equal(links.at(-1).reason, "nothing was heard any more");
  });
});

test("an alarm that rings in a tab that slept waits once more before it blames the server", async () => {
  const later = (response) => {
    response.writeHead(200, SSE).write(hello);
    response.on("close", () => assert.ok(response.writableEnded, "the connection was dropped"));
    woken.then(() => response.end(RUN + end));
  };
  let wake;
  const woken = new Promise((resolve) => (wake = resolve));
  await serving([later], async (url, asked) => {
    const clock = new Hurried();
    const waits = [];
    clock.rings = (ms) => {
      waits.push(ms);
      if (ms === 25_000) clock.time += 3_600_000; // an hour passes before this timer is looked at
      if (ms === 2_000) wake();
      return ms === 25_000 && asked.length === 1;
    };
    const { seqs } = await followed(url, { clock });
    assert.deepEqual(seqs, [1, 2, 3]);
    assert.ok(waits.includes(2_000));
    assert.equal(asked.length, 1);
  });
});

test("a gap moves the cursor, forwards or back", async () => {
  const gap = (cursor) =>
    control("gap", { reason: "trimmed", requested: "1", first: parseInt(cursor, 10) + 1, cursor });
  const forwards = hello + gap("6") + stored(7, "text", "g") + stored(8, "run.completed", {}) + end;
  const back = hello + gap("0") + RUN + end;
  for (const [text, expected] of [
    [forwards, [1, 7, 8]],
    [back, [1, 1, 2, 3]],
  ]) {
    await serving([cut(hello + stored(1, "text", "a")), whole(text)], async (url) => {
      const { seqs, items } = await followed(url);
      assert.deepEqual(seqs, expected);
      assert.equal(items.find(({ kind }) => kind === "gap").data.reason, "trimmed");
    });
  }
});

const json = (said) => (response) => response.writeHead(200, {}).end(JSON.stringify(said));
const snapshot = {
  cursor: `6-${chain}`,
  events: [
    { cursor: `4-${chain}`, seq: 4, type: "text", data: "kept" },
    { cursor: `6-${chain}`, seq: 6, type: "bytes", data_base64: "AP8=", content_type: "a/b" },
  ],
};
const told = { reason: "ahead", requested: "0", first: 1, cursor: `6-${chain}` };

test("a gap is handed over with its snapshot, from the frame or from beside the stream", async () => {
  const rest = stored(7, "text", "g") + stored(8, "run.completed", {}) + end;
  for (const [servings, asks] of [
    [[whole(hello + control("gap", { ...told, snapshot }) + rest)], 1],
    [[whole(hello + control("gap", { ...told, snapshot_url: "http://evil/" }) + rest), json(snapshot)], 2],
    [[whole(hello + control("gap", { ...told, snapshot_url: "/" }) + rest), json({ ...snapshot, cursor: "5" }),
      whole(hello + control("gap", { ...told, snapshot }) + rest)], 3],
  ]) {
    await serving(servings, async (url, asked) => {
      const { seqs, items } = await followed(url);
      assert.deepEqual(seqs, [7, 8]);
      const [gap] = items.filter(({ kind }) => kind === "gap");
      assert.deepEqual(gap.events.map(({ seq, type }) => [seq, type]), [[4, "text"], [6, "bytes"]]);
      assert.deepEqual(gap.events[1].data, Uint8Array.of(0, 255));
      assert.equal(asked.length, asks);
    });
  }
});

test("a snapshot older than what was read is passed over", async () => {
  const old = control("gap", { ...told, requested: "1", cursor: "1", snapshot: { cursor: "1", events: [] } });
  await serving([whole(hello + stored(1, "text", "a") + stored(2, "text", "b") + old + stored(3, "run.completed", {}) + end)],
    async (url) => {
      const { seqs, items } = await followed(url);
      assert.deepEqual(seqs, [1, 2, 3]);
      assert.ok(!items.some(({ kind }) => kind === "gap"));
    });
});

test("control frames of a newer server are handed over and harmless", async () => {
  await serving([whole(hello + control("news", { a: 1 }) + RUN + end)], async (url) => {
    const { seqs, items } = await followed(url);
    assert.deepEqual(seqs, [1, 2, 3]);
    assert.ok(items.some(({ kind, name }) => kind === "control" && name === "news"));
  });
});

test("an event that is too large is told once and not asked for again", async () => {
  const giant = `id: 2-${chain}\nevent: text\ndata: "${"x".repeat(MAX_FRAME)}"\n\n`;
  await serving([whole(hello + stored(1, "text", "a") + giant)], async (url, asked) => {
    const { seqs, links } = await followed(url);
    assert.deepEqual(seqs, [1]);
    assert.equal(links.at(-1).code, "event_too_large");
    assert.equal(asked.length, 1);
  });
});

test("close and leaving the loop hang up", async () => {
  for (const leave of [(item, follow) => follow.close(), (item) => item.kind === "events"]) {
    let hungUp;
    const open = (response) => {
      hungUp = once(response, "close");
      response.writeHead(200, SSE).write(hello + stored(1, "text", "a"));
    };
    await serving([open], async (url, asked) => {
      const follow = new Follow(url, { clock: new Hurried() });
      for await (const item of follow) {
        if (item.kind === "events" && leave(item, follow)) break;
      }
      await hungUp;
      assert.equal(asked.length, 1);
    });
  }
});

test("close ends a pause, and a nudge tries again at once", async () => {
  await serving([refuse(503), whole(hello + RUN + end)], async (url, asked) => {
    for (const [act, asks] of [
      ["nudge", 2],
      ["close", 1],
    ]) {
      asked.length = 0;
      const clock = new Hurried();
      const follow = new Follow(url, { clock });
      clock.pause = () => (setImmediate(() => follow[act]()), () => {}); // a pause that ends by the act alone
      for await (const _ of follow);
      assert.equal(asked.length, asks);
    }
  });
});

test("forty thousand events come in batches, in order", async () => {
  const many = 40_000;
  const body = Array.from({ length: many }, (_, index) => stored(index + 1, "text", `${index} `)).join("");
  await serving([whole(hello + body + stored(many + 1, "run.completed", {}) + end)], async (url) => {
    const { events, items } = await followed(url);
    assert.equal(events.length, many + 1);
    assert.ok(items.length < many / 10);
  });
});

// ---- the transcript -----------------------------------------------------------------------------

const said = (...entries) => entries.map(([type, data], index) => ({ seq: index + 1, cursor: "", type, data }));
const shape = ({ blocks }) =>
  blocks.map((block) =>
    block.kind === "text"
      ? block.pieces.join("")
      : block.kind === "folded"
        ? shape(block)
        : block.kind === "tool"
          ? `${block.name}(${briefly(block.given)})${block.answered ? " = " + brief(block.answer, 20) : ""}`
          : (block.text ?? block.type),
  );

test("adjacent text is one block, and an answer joins its call", () => {
  const transcript = new Transcript();
  transcript.take(said(["run.started", {}], ["text", "a "], ["text", "b"]));
  transcript.take(
    said(
      ["tool.call", { id: "1", tool: "look", arguments: { at: "x", deep: 2 } }],
      ["text", "c"],
      ["tool.result", { id: "1", result: 7 }],
      ["tool.result", { id: "9", result: 8 }],
      ["plan", [1]],
      ["run.completed", { result: { ok: true } }],
    ),
  );
  assert.deepEqual(shape(transcript), [
    "started",
    "a b",
    "look(x, 2) = 7",
    "c",
    "tool.result",
    "plan",
    'completed: {"ok":true}',
  ]);
});

test("what changed is told, so that only that is drawn", () => {
  const transcript = new Transcript();
  const first = transcript.take(said(["text", "a"], ["tool.call", { id: "1", tool: "t" }]));
  assert.equal(first.changed.size, 2);
  const second = transcript.take([{ seq: 3, type: "tool.result", data: { id: "1", result: 1 } }]);
  assert.deepEqual([...second.changed], [transcript.blocks[1]]);
  assert.equal(second.rearranged, false);
});

test("a takeover folds away what came before it, and the notes stay", () => {
  const transcript = new Transcript();
  transcript.take(said(["run.started", {}], ["text", "one two"], ["tool.call", { id: "1", tool: "t" }]));
  const { rearranged } = transcript.take([
    { seq: 4, type: "run.restarted", data: { attempt: 2, cause: "crash", keep: 0 } },
  ]);
  assert.equal(rearranged, true);
  transcript.take([{ seq: 5, type: "text", data: "again" }]);
  transcript.take([
    { seq: 6, type: "run.restarted", data: { attempt: 3, cause: "stall", keep: 0 } },
    { seq: 7, type: "text", data: "more" },
  ]);
  assert.deepEqual(shape(transcript), [
    "started",
    ["one two", "t()"],
    "taken over — attempt 2, cause: crash",
    ["again"],
    "taken over — attempt 3, cause: stall",
    "more",
  ]);
  assert.deepEqual([transcript.blocks[1].words, transcript.blocks[1].tools], [2, 1]);
});

test("a takeover keeps what it says it keeps, down to the word", () => {
  const transcript = new Transcript();
  transcript.take(said(["text", "kept "], ["text", "cut"], ["tool.call", { id: "1", tool: "t" }]));
  transcript.take([{ seq: 4, type: "run.restarted", data: { attempt: 2, cause: "crash", keep: 1 } }]);
  assert.deepEqual(shape(transcript), ["kept ", ["cut", "t()"], "taken over — attempt 2, cause: crash"]);
  transcript.take([{ seq: 5, type: "run.restarted", data: { attempt: 3, cause: "crash", keep: 2 } }]);
  assert.equal(shape(transcript)[0], "kept ");
  const open = new Transcript();
  open.take(said(["tool.call", { id: "1", tool: "t" }], ["tool.result", { id: "1", result: 1 }]));
  open.take([{ seq: 3, type: "run.restarted", data: { attempt: 2, cause: "crash", keep: 1 } }]);
  assert.deepEqual(shape(open), ["t()", "taken over — attempt 2, cause: crash"]);
});

test("a takeover before anything was said folds nothing", () => {
  const transcript = new Transcript();
  const { rearranged } = transcript.take(said(["run.started", {}], ["run.restarted", { attempt: 2, cause: "crash" }]));
  assert.equal(rearranged, false);
  assert.deepEqual(shape(transcript), ["started", "taken over — attempt 2, cause: crash"]);
});

test("a planned hand-off is told as one, and folds away what is said anew", () => {
  const transcript = new Transcript();
  transcript.take(said(["text", "a"], ["run.restarted", { attempt: 2, cause: "handoff", keep: 0 }], ["text", "b"]));
  assert.deepEqual(shape(transcript), [["a"], "handed off — attempt 2", "b"]);
});

test("a gap is a note, and what is told again is shown once", () => {
  const transcript = new Transcript();
  transcript.take(said(["text", "a"], ["text", "b"]));
  transcript.skip("trimmed", 6);
  transcript.take([{ seq: 7, type: "text", data: "c" }]);
  transcript.take([{ seq: 8, type: "tool.call", data: { id: "1", tool: "t" } }]);
  assert.deepEqual(shape(transcript), ["ab", "a part of the log is missing here (trimmed)", "c", "t()"]);
  transcript.skip("other history", 0);
  transcript.take(said(["text", "x"], ["tool.result", { id: "1", result: 1 }]));
  assert.deepEqual(shape(transcript), ["a part of the log is missing here (other history)", "x", "tool.result"]);
});

test("every outcome is said", () => {
  const notes = (type, data) =>
    shape({
      blocks: (() => {
        const t = new Transcript();
        t.take(said([type, data]));
        return t.blocks;
      })(),
    })[0];
  assert.equal(
    notes("run.failed", { code: "recovery_exhausted", message: "Five takeovers." }),
    "failed (recovery_exhausted): Five takeovers.",
  );
  assert.equal(notes("run.cancelled", { reason: "enough" }), "stopped: enough");
  assert.equal(notes("run.cancelled", {}), "stopped");
  assert.equal(notes("run.completed", {}), "completed");
  assert.equal(notes("run.parked", {}), "parked");
});

test("values are cut short on one line", () => {
  assert.equal(brief("a\n  b", 20), "a b");
  assert.equal(brief({ a: "x".repeat(50) }, 10), '{"a":"xxxx…');
  assert.equal(brief(new Uint8Array(1234), 5), "1,234 bytes");
  assert.equal(briefly(undefined), "");
  assert.equal(briefly(["a"]), '["a"]');
});

// ---- the nodes ----------------------------------------------------------------------------------

test("a node is told with its lease and its lag, and what is wrong with one stands at the top", () => {
  const well = { id: "0123456789", live: true, lease_left: 12.3, stalled: false, loop_lag: 0.004 };
  const gone = { ...well, id: "gone", live: false, lease_left: null, lapsed_for: 61.4, loop_lag: 3 };
  assert.equal(nodeLine(well), "node 01234567 · lease ends in 12 s · loop lag 4 ms");
  assert.equal(nodeLine(gone), "node gone · died · 61 s ago");
  assert.deepEqual(fleetLine([well, gone]), ["good", "connected"]);
  assert.deepEqual(fleetLine([well, well]), ["good", "connected; 2 nodes"]);
  const late = { ...well, loop_lag: 0.73 };
  assert.deepEqual(fleetLine([well, late]), ["warn", "connected; node 01234567: its event loop lags 0.7 s"]);
  const stalled = { ...gone, stalled: true };
  assert.match(nodeLine(stalled), /stood still/);
  assert.deepEqual(fleetLine([well, stalled])[0], "warn");
});
