// @ts-check
/**
 * Follows a run over server-sent events, across any number of connections: exactly once, in order, or told.
 *
 * Rules of this file
 * 1. A frame counts when its blank line has come; a stream that breaks off gives nothing of its last frame.
 * 2. The place is the cursor of the last event handed over. Every connection asks from there, and what comes twice
 *    is dropped by its seq. A hole is never handed over: the connection is dropped, and the next one asks again.
 * 3. Silence is not yet the end: a stream that lives sends heartbeats, and 2.5 of their intervals without a byte are.
 * 4. The pause before a new connection doubles from 0.5 s to 8 s. Only an event or a heartbeat brings it back,
 *    because a server that accepts and hangs up at once would otherwise be asked twice a second for ever.
 * 5. A refusal (4xx) is final and told; a busy server (429, 5xx) is asked again, no sooner than it says.
 */

/** Characters of one frame: an event of 8 MiB as base64, and room for its other fields. */
export const MAX_FRAME = 12 * 1024 * 1024;
/** Milliseconds until the first answer of a connection. */
const ESTABLISHMENT = 15_000;
/** Milliseconds between heartbeats of a server that does not tell. */
const HEARTBEAT = 15_000;
/** Heartbeat intervals of silence after which a connection is given up. */
const PATIENCE = 2.5;
/** Milliseconds: an alarm that rings this late rang in a tab that slept, and says nothing about the server. */
const OVERSLEPT = 2_000;
const PAUSE = { first: 500, last: 8_000 };
/** Milliseconds: a server that asks for a longer pause is mistaken. */
const LONGEST_FLOOR = 300_000;

const TERMINALS = new Set(["run.completed", "run.failed", "run.cancelled"]);
const CONTROL = "outlast.";
const ASK_AGAIN = new Set([408, 425, 429]);

/**
 * @typedef {{event: string, id: string | null, data: string, contentType: string | null}} Frame
 * @typedef {{seq: number, cursor: string, type: string, data: any}} LogEvent  data is JSON, or a Uint8Array
 * @typedef {{kind: "events", events: LogEvent[]}
 *   | {kind: "control", name: string, data: any}
 *   | {kind: "gap", data: any, events: LogEvent[]}  events are the snapshot: they replace all that came before
 *   | {kind: "link", phase: "connecting" | "live" | "ended"}
 *   | {kind: "link", phase: "lost", reason: string, retryAt: number}
 *   | {kind: "link", phase: "refused", status: number, code: string, detail: string}} Item
 * @typedef {(ms: number, ring: () => void) => () => void} Timer  returns what cancels it
 * @typedef {{now: () => number, pause: Timer, alarm: Timer}} Clock  pauses lie between connections, alarms within one
 * @typedef {{ended: true} | {lost: string} | {refused: {status: number, code: string, detail: string}}} Ending
 */

/** The frames of one stream, from its first byte. A new connection takes a new parser. */
export class Parser {
  /** Milliseconds of the last `retry:` line. @type {number | null} */
  retry = null;
  /** A frame was larger than `maxFrame`: what follows has no meaning, and another try meets the same frame. */
  overflowed = false;

  #decoder = new TextDecoder(); // keeps characters that are cut, and takes the byte order mark away
  #line = "";
  #afterReturn = false;
  #size = 0;
  #maxFrame;
  /** @type {string[]} */ #data = [];
  #event = "";
  /** @type {string | null} */ #id = null;
  /** @type {string | null} */ #contentType = null;

  constructor(maxFrame = MAX_FRAME) {
    this.#maxFrame = maxFrame;
  }

  /** @param {Uint8Array} chunk @returns {Frame[]} the frames it completes */
  push(chunk) {
    /** @type {Frame[]} */ const frames = [];
    let text = this.#decoder.decode(chunk, { stream: true });
    if (this.overflowed || text === "") return frames;
    if (this.#afterReturn && text[0] === "\n") text = text.slice(1);
    this.#afterReturn = text.endsWith("\r");
    let start = 0;
    for (const end of text.matchAll(/\r\n|\n|\r/g)) {
      const line = this.#line + text.slice(start, end.index);
      start = end.index + end[0].length;
      this.#line = "";
      if (line === "") this.#finish(frames);
      else if (!this.#take(line)) return frames;
    }
    this.#line += text.slice(start);
    this.overflowed = this.#size + this.#line.length > this.#maxFrame;
    return frames;
  }

  /** @param {string} line */
  #take(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return true; // a comment
    this.#size += line.length;
    if (this.#size > this.#maxFrame) return !(this.overflowed = true);
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "content-type") this.#contentType = value;
    else if (name === "retry" && /^\d{1,9}$/.test(value)) this.retry = Number(value);
    return true;
  }

  /** @param {Frame[]} frames */
  #finish(frames) {
    if (this.#data.length > 0) {
      const data = this.#data.join("\n");
      frames.push({ event: this.#event || "message", id: this.#id, data, contentType: this.#contentType });
    }
    this.#data = [];
    this.#event = "";
    this.#id = this.#contentType = null;
    this.#size = 0;
  }
}

/** The event in a frame that has a place in the log. @param {Frame} frame @returns {LogEvent} */
export function eventOf(frame) {
  const cursor = frame.id ?? "";
  const place = /^(\d{1,16})(-[0-9a-f]{16})?$/.exec(cursor);
  if (!place) throw new SyntaxError("an event without a cursor");
  return { seq: Number(place[1]), cursor, type: frame.event, data: dataOf(frame) };
}

/** @param {Frame} frame */
function dataOf(frame) {
  const data = JSON.parse(frame.data);
  if (frame.contentType === null) return data;
  const bytes = Uint8Array.from(atob(data.data_base64), (character) => character.charCodeAt(0));
  return frame.contentType === "application/json" ? JSON.parse(new TextDecoder().decode(bytes)) : bytes;
}

/** The event that a snapshot, a page or an envelope tells. @param {any} said @returns {LogEvent} */
function eventIn({ cursor, seq, type, data, data_base64, content_type = null }) {
  const text = content_type === null ? JSON.stringify(data) : JSON.stringify({ data_base64 });
  return { seq, cursor, type, data: dataOf({ event: type, id: cursor, data: text, contentType: content_type }) };
}

/** @param {string | null} cursor */
const seqOf = (cursor) => (cursor === null ? 0 : parseInt(cursor, 10));

/** @type {Timer} */
const after = (ms, ring) => {
  const timer = setTimeout(ring, ms);
  return () => clearTimeout(timer);
};

/** @type {Clock} */
const monotonic = { now: () => performance.now(), pause: after, alarm: after };

/** The answer to a refused request. @param {Response} response */
export async function problemOf(response) {
  const problem = await response.json().catch(() => ({}));
  const detail = String(problem?.detail ?? problem?.title ?? response.statusText);
  return { status: response.status, code: String(problem?.code ?? `http_${response.status}`), detail };
}

/**
 * One reader's way through a run: `for await (const item of new Follow("runs/x/events"))`. It ends by itself when the
 * run has ended or the server refuses; leaving the loop, or `close()`, ends it sooner. `nudge()` ends a pause.
 */
export class Follow {
  /** The place of the last event taken; it moves when the item after it is asked for. @type {string | null} */
  cursor;

  #url;
  #fetch;
  #clock;
  #random;
  #closed = false;
  #failures = 0;
  #floor = 0;
  #interval = HEARTBEAT;
  #terminal = false;
  /** @type {AbortController | null} */ #attempted = null;
  /** @type {(() => void) | null} */ #wake = null;

  /**
   * @param {string} url
   * @param {{after?: string | null, fetch?: typeof fetch, clock?: Clock, random?: () => number}} [options]
   */
  constructor(
    url,
    { after = null, fetch = globalThis.fetch.bind(globalThis), clock = monotonic, random = Math.random } = {},
  ) {
    this.#url = url;
    this.cursor = after;
    this.#fetch = fetch;
    this.#clock = clock;
    this.#random = random;
  }

  /** Try again now, if this is a pause: the network is back, or a person asks for it. */
  nudge() {
    this.#wake?.();
  }

  close() {
    this.#closed = true;
    this.#attempted?.abort();
    this.#wake?.();
  }

  /** @returns {AsyncGenerator<Item, void>} */
  async *[Symbol.asyncIterator]() {
    while (!this.#closed) {
      yield { kind: "link", phase: "connecting" };
      const ending = yield* this.#attempt();
      if (this.#closed) return;
      if ("refused" in ending) {
        yield { kind: "link", phase: "refused", ...ending.refused };
        return;
      }
      if ("ended" in ending) {
        yield { kind: "link", phase: "ended" };
        return;
      }
      const pause = this.#pause();
      yield { kind: "link", phase: "lost", reason: ending.lost, retryAt: this.#clock.now() + pause };
      await this.#sleep(pause);
    }
  }

  /** One connection, from its request to its end. @returns {AsyncGenerator<Item, Ending>} */
  async *#attempt() {
    const abort = (this.#attempted = new AbortController());
    const alarm = new Alarm(this.#clock, () => abort.abort());
    const headers = new Headers({ accept: "text/event-stream" });
    if (this.cursor !== null) headers.set("last-event-id", this.cursor);
    this.#floor = 0;
    try {
      alarm.set(ESTABLISHMENT);
      const response = await this.#fetch(this.#url, { headers, signal: abort.signal, cache: "no-store" });
      const ending = await this.#answered(response);
      if (ending) return ending;
      yield { kind: "link", phase: "live" };
      return yield* this.#read(/** @type {ReadableStream<Uint8Array>} */ (response.body), alarm, abort.signal);
    } catch (error) {
      if (error instanceof SyntaxError) return { lost: "the stream is not what it should be" };
      if (this.#terminal) return { ended: true };
      return { lost: alarm.rang ? "nothing was heard any more" : "the connection broke" };
    } finally {
      alarm.clear();
      abort.abort(); // also when the reader has left in mid-stream
    }
  }

  /** @param {Response} response @returns {Promise<Ending | null>} null for a stream to read */
  async #answered(response) {
    const { status } = response;
    if (status === 204) return { ended: true };
    if (status >= 400 && status < 500 && !ASK_AGAIN.has(status)) return { refused: await problemOf(response) };
    if (status === 200 && response.headers.get("content-type")?.startsWith("text/event-stream")) return null;
    this.#floor = 1_000 * (Number(response.headers.get("retry-after")) || 0);
    return { lost: status === 200 ? "the answer is no stream" : `the server answered ${status}` };
  }

  /**
   * @param {ReadableStream<Uint8Array>} body
   * @param {Alarm} alarm
   * @param {AbortSignal} signal
   * @returns {AsyncGenerator<Item, Ending>}
   */
  async *#read(body, alarm, signal) {
    const parser = new Parser();
    const reader = body.getReader();
    for (;;) {
      alarm.set(PATIENCE * this.#interval); // not while the reader of these items is busy with them
      const { value, done } = await reader.read();
      alarm.clear();
      if (done) return this.#terminal ? { ended: true } : { lost: "the connection was closed" };
      for (const found of this.#items(parser.push(value))) {
        const item = found.kind === "gap" ? await this.#bridge(found.data, signal) : found;
        if (item === null) continue;
        yield item;
        if (item.kind === "control" && item.name === "end") {
          const ahead = seqOf(String(item.data.head)) > seqOf(this.cursor);
          if (ahead && !this.#terminal) throw new SyntaxError("a hole before the end");
          return { ended: true };
        }
      }
      if (parser.retry !== null) this.#floor = Math.max(this.#floor, parser.retry);
      if (parser.overflowed) {
        const detail = "an event is larger than this page can take";
        return { refused: { status: 200, code: "event_too_large", detail } };
      }
    }
  }

  /** What frames mean, events of one chunk together. @param {Frame[]} frames @returns {Generator<Item, void>} */
  *#items(frames) {
    /** @type {LogEvent[]} */ let events = [];
    let last = seqOf(this.cursor);
    for (const frame of frames) {
      const event = frame.event.startsWith(CONTROL) ? null : eventOf(frame);
      if (event && event.seq <= last) continue; // it came before, over another connection
      if (event && event.seq === last + 1) {
        events.push(event);
        last = event.seq;
        continue;
      }
      yield* this.#hand(events);
      events = [];
      if (event) throw new SyntaxError("a hole in the log");
      yield this.#control(frame.event.slice(CONTROL.length), JSON.parse(frame.data));
      last = seqOf(this.cursor);
    }
    yield* this.#hand(events);
  }

  /**
   * Get over a gap: its snapshot is in it, or is fetched before anything is handed over.
   * @param {any} data @param {AbortSignal} signal @returns {Promise<Item | null>} null for what is out of date
   */
  async #bridge(data, signal) {
    const taken = seqOf(this.cursor);
    if (seqOf(String(data.requested)) !== taken && seqOf(String(data.cursor)) <= taken) return null;
    let snapshot = data.snapshot ?? { cursor: data.cursor, events: [] };
    if (data.snapshot === undefined && data.snapshot_url !== undefined) {
      const url = this.#url.replace(/\/events(?=\?|$)/, "/snapshot"); // wherever the server says that it is
      const response = await this.#fetch(url, { signal, cache: "no-store" });
      if (!response.ok) throw new SyntaxError("no snapshot");
      snapshot = await response.json();
      if (!(seqOf(snapshot.cursor) >= seqOf(String(data.cursor)))) throw new SyntaxError("an old snapshot");
    }
    const events = snapshot.events.map(eventIn);
    this.cursor = String(snapshot.cursor);
    this.#terminal = TERMINALS.has(events.at(-1)?.type);
    return { kind: "gap", data, events };
  }

  /** @param {LogEvent[]} events @returns {Generator<Item, void>} */
  *#hand(events) {
    const newest = events.at(-1);
    if (!newest) return;
    yield { kind: "events", events };
    this.cursor = newest.cursor;
    this.#failures = 0;
    this.#terminal = TERMINALS.has(newest.type);
  }

  /** @param {string} name @param {any} data @returns {Item} */
  #control(name, data) {
    if (name === "hello" && data.heartbeat > 0) this.#interval = 1_000 * data.heartbeat;
    if (name === "heartbeat") this.#failures = 0;
    if (name === "drain") this.#floor = 1_000 * (Number(data.spread) || 0) * this.#random();
    return name === "gap" ? { kind: "gap", data, events: [] } : { kind: "control", name, data };
  }

  /** Milliseconds before the next connection: at least half of the step, and no sooner than the server said. */
  #pause() {
    const step = Math.min(PAUSE.first * 2 ** this.#failures, PAUSE.last);
    this.#failures += 1;
    const floor = this.#floor > 0 && this.#floor <= LONGEST_FLOOR ? this.#floor * (1 + this.#random() / 4) : 0;
    return Math.max(step * (0.5 + this.#random() / 2), floor);
  }

  /** @param {number} ms */
  async #sleep(ms) {
    if (this.#closed) return;
    /** @type {() => void} */ let cancel = () => {};
    await new Promise((resolve) => {
      this.#wake = () => resolve(null);
      cancel = this.#clock.pause(ms, this.#wake);
    });
    cancel();
    this.#wake = null;
  }
}

/** A deadline that can be moved. One that rings in a tab that has slept waits once more: the bytes may lie there. */
class Alarm {
  rang = false;
  #clock;
  #ring;
  /** @type {() => void} */ #cancel = () => {};

  /** @param {Clock} clock @param {() => void} ring */
  constructor(clock, ring) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** @param {number} ms */
  set(ms) {
    this.#cancel();
    const due = this.#clock.now() + ms;
    this.#cancel = this.#clock.alarm(ms, () => {
      if (this.#clock.now() - due > OVERSLEPT) return this.set(OVERSLEPT);
      this.rang = true;
      this.#ring();
    });
  }

  clear() {
    this.#cancel();
  }
}
