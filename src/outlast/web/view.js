// @ts-check
/**
 * The run on show: its transcript, its timeline, its budget, and how the connection to it is doing.
 *
 * Rules of this file
 * 1. Events are laid out once per frame, however many came, and no more than a screenful of work at a time: a history of
 *    forty thousand events comes in as many pieces as the browser needs to stay awake.
 * 2. The log tells what was said; the row (`learn`) tells how the run is doing.
 */
import { make, nodeOf } from "./blocks.js";
import { Follow } from "./outlast.js";
import { draw, enumerate } from "./timeline.js";
import { Transcript, brief } from "./transcript.js";
import { $, age, ask, isSettled, put, sentence, state, tell } from "./words.js";

/** @typedef {import("./transcript.js").Block} Block */
/** @typedef {import("./outlast.js").LogEvent} LogEvent */

/** Seconds without a word after which the page says so. */
const QUIET = 20;
/** Pixels from the end within which the view stays with the newest text. */
const NEAR = 60;
/** Events laid out in one frame. */
const BATCH = 2_000;
/** Events that wait to be laid out before no more are read. */
const WAITING = 8_000;
/** Newest checkpoints on the timeline: their times come in one answer, and more marks could not be told apart. */
const CHECKPOINTS = 50;
/** What is counted, as it is shown and as it is read out. @type {Record<string, [string, string]>} */
const METERS = {
  takeovers: ["takeovers", "takeovers in this window"],
  life: ["in its life", "takeovers in its life"],
  calls: ["calls", "worker calls"],
  handoffs: ["hand-offs", "planned hand-offs"],
};

/** @param {any} run @returns {[string, string][]} */
function factsOf(run) {
  /** @type {[string, string][]} */
  const facts = [["events", (parseInt(run.head, 10) || 0).toLocaleString("en")]];
  if (run.thread) facts.push(["thread", run.thread]);
  if (run.recovering) {
    facts.push(
      ["next try", `takeover ${run.recovering.takeover} in ${run.recovering.next_try_in.toFixed(1)} s`],
      ["cause", run.recovering.cause],
    );
  }
  if (run.status === "failed" && run.outcome) facts.push(["outcome", run.outcome.code]);
  if (run.outcome?.causes?.length) facts.push(["causes", run.outcome.causes.join(", ")]);
  facts.push([isSettled(run) ? "settled" : "started", `${age(isSettled(run) ? run.settled_at : run.created_at)} ago`]);
  return facts;
}

/** A frame of the browser; a page that nobody sees has none, and goes on all the same. */
const frame = () =>
  new Promise((go) => {
    const timer = setTimeout(go, 250);
    requestAnimationFrame(() => (clearTimeout(timer), go(null)));
  });

export class View {
  #transcript = new Transcript();
  /** @type {WeakMap<Block, {node: HTMLElement, grow: () => void}>} */
  #shown = new WeakMap();
  #follow;
  #heard = performance.now();
  #retryAt = 0;
  #live = false;
  #closed = false;
  /** @type {any} */ #run = null;
  #names = "";
  /** @type {LogEvent[]} */ #waiting = [];
  /** @type {Promise<void> | null} */ #laying = null;
  /** @type {import("./timeline.js").Entry[]} */ #lineage = [];
  /** The time of each checkpoint by its seq, null while it is asked for. @type {Map<number, number | null>} */
  #checkpoints = new Map();
  #asking = false;
  /** Hears of the run's document. @type {(run: any) => void} */
  learned;

  /** @param {string} id @param {(run: any) => void} learned */
  constructor(id, learned) {
    this.id = id;
    this.learned = learned;
    this.#follow = new Follow(this.#at("/events"));
    for (const place of ["log", "facts", "budget", "lineage", "chart"]) $(place).replaceChildren();
    for (const place of ["stop", "standstill", "timeline", "state"]) $(place).hidden = true;
    put($("id"), id);
    put($("worker"), "");
    this.#read();
    this.look();
  }

  /** @param {string} [rest] */
  #at(rest = "") {
    return `runs/${encodeURIComponent(this.id)}${rest}`;
  }

  get canStop() {
    return Boolean(this.#run?.worker) && !isSettled(this.#run) && !this.#run.stop_requested;
  }

  close() {
    this.#closed = true;
    this.#follow.close();
  }

  nudge() {
    this.#follow.nudge();
  }

  /** Fetch the status document and the lineage. */
  async look() {
    const [run, told] = await Promise.all([
      ask(this.#at()).catch(() => null), // the list tells when it fails
      ask(this.#at("/lineage")).catch(() => null),
    ]);
    if (this.#closed) return;
    if (told) this.#lineage = told.lineage;
    if (!run) return;
    this.learned(run);
    this.learn(run);
  }

  /** Take the status document, or the part of it that a heartbeat repeats. @param {any} told */
  learn(told) {
    if (this.#run && isSettled(this.#run) && told.status && !isSettled(told)) return; // overtaken
    const epoch = this.#run?.epoch;
    this.#run = { ...this.#run, ...told };
    if (!this.#run.worker) return; // a heartbeat came before the document
    put($("worker"), this.#run.worker);
    $("stop").hidden = isSettled(this.#run);
    $("stop").disabled = this.#run.stop_requested;
    this.#show();
    if (epoch !== undefined && told.epoch > epoch) this.look(); // it changed hands
  }

  #show() {
    const run = this.#run;
    $("state").hidden = false;
    put($("state"), state(run));
    $("state").dataset.state = state(run);
    $("standstill").hidden = !run.standstill || isSettled(run);
    put($("standstill"), run.standstill?.message ?? "");
    this.#showFacts();
    this.#showBudget();
    $("timeline").hidden = this.#lineage.length === 0;
    if ($("timeline").hidden) return;
    const times = [...this.#checkpoints.values()].filter((at) => at !== null);
    draw($("chart"), run, this.#lineage, /** @type {number[]} */ (times));
    enumerate($("lineage"), this.#lineage);
  }

  /** What changes by itself: ages, countdowns, and how long nothing was heard. */
  tick() {
    const { recovering, lease_left: left } = this.#run ?? {};
    if (recovering) recovering.next_try_in = Math.max(0, recovering.next_try_in - 1);
    if (left) this.#run.lease_left = Math.max(0, left - 1);
    if (this.#run?.worker) this.#show();
    const seconds = Math.ceil((this.#retryAt - performance.now()) / 1000);
    const quiet = Math.floor((performance.now() - this.#heard) / 1000);
    const slow = this.#live && quiet >= QUIET;
    // The seconds are for the eye: read out, they would drown everything else.
    put($("seconds"), this.#retryAt > 0 ? ` in ${Math.max(1, seconds)} s` : slow ? ` ${quiet} s ago` : "");
    if (slow) this.tellLink("warn", "slow, last heard");
    else if (this.#live) this.tellLink("good", "connected");
  }

  /** @param {string} tone @param {string} text */
  tellLink(tone, text) {
    tell($("link"), tone, text);
    $("now").hidden = this.#retryAt === 0;
  }

  async #read() {
    for await (const item of this.#follow) {
      if (this.#closed) return;
      this.#heard = performance.now();
      if (item.kind === "events") {
        for (const event of item.events) this.#waiting.push(event); // never spread: they may be too many
        this.#laying ??= this.#lay();
        if (this.#waiting.length > WAITING) await this.#laying;
        continue;
      }
      if (item.kind === "control" && item.name === "heartbeat") {
        this.learn(item.data);
        continue;
      }
      await this.#laying; // what is told of the log comes behind what was said in it
      if (this.#closed) return;
      if (item.kind === "link") this.#linked(item);
      else if (item.kind === "gap") this.#skip(item.data, item.events);
    }
  }

  /** @param {any} item */
  #linked(item) {
    this.#live = item.phase === "live";
    $("log").toggleAttribute("data-live", this.#live);
    this.#retryAt = item.phase === "lost" ? item.retryAt : 0;
    if (item.phase === "live") this.look();
    if (item.phase === "connecting" && this.#transcript.blocks.length === 0) this.tellLink("plain", "connecting");
    if (item.phase === "ended") this.tellLink("plain", "this is all that the run said");
    if (item.phase === "refused") this.tellLink("bad", sentence(item));
    if (item.phase === "lost") this.tellLink("bad", "connection lost, trying again");
    this.tick();
  }

  /** Lay out what waits, a batch a frame. */
  async #lay() {
    $("log").ariaBusy = "true";
    while (this.#waiting.length > 0) {
      await frame();
      if (this.#closed) return;
      this.#take(this.#waiting.splice(0, BATCH));
    }
    $("log").ariaBusy = "false";
    this.#laying = null;
  }

  /** @param {LogEvent[]} events */
  #take(events) {
    const log = $("log");
    // On a narrow screen the run as a whole scrolls, and not its log.
    const room = getComputedStyle(log).overflowY === "visible" ? $("run") : log;
    const following = room.scrollHeight - room.scrollTop - room.clientHeight < NEAR;
    const { changed, rearranged } = this.#transcript.take(events);
    if (rearranged) this.#showAll();
    else for (const block of changed) this.#showBlock(block, log);
    if (following) room.scrollTop = room.scrollHeight;
    for (const { type, seq } of events) if (type === "run.checkpoint") this.#checkpoints.set(seq, null);
    this.learn({ head: events.at(-1)?.cursor });
    if (!events.some((event) => event.type.startsWith("run."))) return;
    this.look();
    this.#askForTimes();
  }

  /** A stream does not tell when an event was said; a page of one kind of event does. */
  async #askForTimes() {
    if (this.#asking) return; // whoever asks now goes on until nothing is missing
    this.#asking = true;
    for (let missing = this.#untimed(); missing.length > 0 && !this.#closed; ) {
      const path = `/events?types=run.checkpoint&after=${missing[0] - 1}`;
      const page = await ask(this.#at(path)).catch(() => null);
      for (const { seq, time } of page?.events ?? []) {
        if (this.#checkpoints.has(seq)) this.#checkpoints.set(seq, Date.parse(time));
      }
      const left = this.#untimed();
      if (left[0] === missing[0]) break; // no answer: the next event of the run asks again
      missing = left;
    }
    this.#asking = false;
    if (this.#run?.worker && !this.#closed) this.#show();
  }

  /** The newest checkpoints whose time nobody told yet. */
  #untimed() {
    const newest = [...this.#checkpoints].slice(-CHECKPOINTS);
    return newest.flatMap(([seq, at]) => (at === null ? [seq] : []));
  }

  /** @param {any} gap @param {LogEvent[]} snapshot */
  #skip(gap, snapshot) {
    this.#transcript.skip(brief(gap.reason, 60), 0);
    this.#transcript.take(snapshot);
    this.#showAll();
  }

  #showAll() {
    $("log").replaceChildren();
    for (const block of this.#transcript.blocks) this.#showBlock(block, $("log"));
  }

  /** @param {Block} block @param {HTMLElement} into */
  #showBlock(block, into) {
    let shown = this.#shown.get(block);
    if (!shown) this.#shown.set(block, (shown = nodeOf(block)));
    shown.grow();
    if (shown.node.parentNode !== into) into.append(shown.node);
  }

  #showFacts() {
    const facts = factsOf(this.#run);
    const names = facts.map(([name]) => name).join();
    if (this.#names !== names) {
      this.#names = names;
      $("facts").replaceChildren(...facts.map(([name]) => make("div", "", make("dt", "", name), make("dd"))));
    }
    const values = $("facts").querySelectorAll("dd");
    facts.forEach(([, value], place) => put(values[place], value));
  }

  #showBudget() {
    if ($("budget").children.length === 0) {
      for (const [name, [words, whole]] of Object.entries(METERS)) {
        const meter = make("meter");
        meter.ariaLabel = meter.title = whole;
        $("budget").append(make("label", name, make("span", "", words), meter, make("output")));
      }
    }
    Object.keys(METERS).forEach((name, place) => {
      const { used, limit } = this.#run.budget[name];
      const [, meter, said] = $("budget").children[place].children;
      Object.assign(meter, { max: Math.max(1, limit), low: 0.5 * limit, high: 0.8 * limit, optimum: 0, value: used });
      put(said, `${used} of ${limit}`);
    });
  }
}
