// @ts-check
/**
 * The page: lists runs, starts and stops them, and shows one live.
 *
 * Rules of this file
 * 1. What a run says is text and never markup: nodes are made by name and filled through `textContent`.
 * 2. Every address is relative, so the page works wherever the application is mounted.
 * 3. Three things are shown apart: the server (top), this page's connection to the run, and the run's own recovery.
 */
import { make, nodeOf } from "./blocks.js";
import { Follow, problemOf } from "./outlast.js";
import { Transcript, brief } from "./transcript.js";

/** @typedef {import("./transcript.js").Block} Block */

/** Milliseconds between looks at the list; the run itself is followed and needs none. */
const LOOK = 2_000;
/** Seconds without a word after which the page says so. */
const QUIET = 20;
/** Pixels from the end within which the view stays with the newest text. */
const NEAR = 60;

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

// ---- words and numbers --------------------------------------------------------------------------

/** The server's clock less ours, in milliseconds: ages are told by the clock that set the times. */
let skew = 0;

/** @param {string} time */
function age(time) {
  const seconds = Math.max(0, Math.round((Date.now() + skew - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** @param {any} run */
const isSettled = (run) => ["completed", "failed", "cancelled"].includes(run.status);

/** @param {any} run */
const state = (run) =>
  isSettled(run) ? run.status : run.recovering ? "recovering" : run.stop_requested ? "stopping" : run.status;

/** @param {any} run @returns {[string, string][]} */
function factsOf(run) {
  const { takeovers, life, handoffs, calls } = run.budget;
  /** @type {[string, string][]} */
  const facts = [
    ["status", state(run)],
    ["events", String(parseInt(run.head, 10) || 0)],
    [
      "takeovers",
      `${takeovers.used} of ${takeovers.limit}` +
        (life.used > takeovers.used ? `, ${life.used} of ${life.limit} in all` : ""),
    ],
    ["calls", `${calls.used} of ${calls.limit}`],
  ];
  if (handoffs.used > 0) facts.push(["hand-offs", `${handoffs.used} of ${handoffs.limit}`]);
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

// ---- the server ---------------------------------------------------------------------------------

/** @param {string} url @param {RequestInit} [options] */
async function ask(url, options = {}) {
  const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(10_000), ...options });
  if (!response.ok) throw await problemOf(response);
  skew = Date.parse(response.headers.get("date") ?? "") - Date.now() || 0;
  return response.json();
}

/** @param {string} url @param {object} body */
const post = (url, body) =>
  ask(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/**
 * Put a text in, unless it is there: it would be read out again, and a selection in it lost.
 * @param {Node} place @param {string} text
 */
function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** @param {HTMLElement} place @param {string} tone @param {string} text */
function tell(place, tone, text) {
  place.dataset.tone = tone;
  put(place, text);
}

// ---- the list -----------------------------------------------------------------------------------

/** @typedef {{run: any, item: HTMLElement, link: HTMLAnchorElement, parts: HTMLElement[]}} Entry */
/** @type {Map<string, Entry>} */
const listed = new Map();
let beyond = /** @type {string | null} */ (null);
let paged = false;

/** @param {any} run @returns {Entry} the one place of this run in the list, whose nodes stay: people click on them */
function entryOf(run) {
  const entry = listed.get(run.id);
  if (entry) return isSettled(entry.run) ? entry : Object.assign(entry, { run }); // settled is settled
  const parts = [make("span", "name"), make("span", "badge"), make("code"), make("span", "aside")];
  const link = /** @type {HTMLAnchorElement} */ (make("a", "", ...parts));
  link.href = `#${encodeURIComponent(run.id)}`;
  const made = { run, item: make("li", "", link), link, parts };
  listed.set(run.id, made);
  return made;
}

function showList() {
  const entries = [...listed.values()].sort((one, other) => (one.run.created_at < other.run.created_at ? 1 : -1));
  for (const { run, link, parts } of entries) {
    const used = run.budget.life.used;
    const takeovers = used > 0 ? `${used} takeover${used > 1 ? "s" : ""} · ` : "";
    [run.worker, state(run), run.id, takeovers + age(run.created_at)].forEach((text, place) => put(parts[place], text));
    parts[1].dataset.state = state(run);
    link.ariaCurrent = run.id === chosen ? "true" : null;
  }
  const items = entries.map(({ item }) => item);
  if (items.some((item, place) => $("runs").children[place] !== item)) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    $("runs").replaceChildren(...items);
    if (focused && $("runs").contains(focused)) focused.focus();
  }
  // One stop for Tab; the arrows go on from there.
  const stop = entries.find(({ run }) => run.id === chosen) ?? entries[0];
  for (const entry of entries) entry.link.tabIndex = entry === stop ? 0 : -1;
  $("none").hidden = entries.length > 0;
  $("older").hidden = beyond === null;
}

$("runs").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const links = [...$("runs").querySelectorAll("a")];
  const here = links.indexOf(document.activeElement);
  const there = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: links.length - 1 }[event.key];
  if (there === undefined || !links[there]) return;
  event.preventDefault();
  links[there].focus();
});

$("older").addEventListener("click", () => look(`runs?after=${encodeURIComponent(beyond ?? "")}`));

async function look(url = "runs") {
  const older = url !== "runs";
  const page = await ask(url);
  for (const run of page.runs) {
    entryOf(run);
    if (run.id === chosen) view?.learn(run);
  }
  if (older || !paged) beyond = page.next ?? null; // a look at the newest does not forget how far back we went
  paged ||= older;
  showList();
}

/** Look again and again; a page that nobody sees asks nothing. */
async function keepLooking() {
  if (!document.hidden) {
    try {
      if ($("start").worker.options.length === 0) await showWorkers();
      await look();
      if ($("server").dataset.tone === "bad") view?.nudge(); // it is back: no need to wait for the pause to end
      tell($("server"), "good", "connected");
    } catch {
      tell($("server"), "bad", "the server does not answer, trying again");
    }
  }
  setTimeout(keepLooking, LOOK);
}

// ---- starting and stopping ----------------------------------------------------------------------

async function showWorkers() {
  const { workers } = await ask("healthz");
  $("start").worker.replaceChildren(...workers.map((/** @type {string} */ name) => make("option", "", name)));
}

$("start").addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  const form = $("start");
  try {
    const input = JSON.parse(form.input.value || "null");
    const run = await post("runs", { worker: form.worker.value, input });
    tell(form.answer, "good", "");
    entryOf(run);
    location.hash = encodeURIComponent(run.id);
  } catch (problem) {
    tell(form.answer, "bad", problem instanceof SyntaxError ? "The input is not JSON." : sentence(problem));
  }
});

/** @param {any} problem */
const sentence = (problem) => (problem?.code ? `${problem.detail} (${problem.code})` : "The server does not answer.");

$("stop").addEventListener("click", async () => {
  const { id } = view ?? {};
  if (!id) return;
  $("stop").disabled = true;
  try {
    await post(`runs/${encodeURIComponent(id)}/stop`, {});
  } catch (problem) {
    view?.tellLink("bad", sentence(problem));
  }
  await view?.look();
});

// ---- one run ------------------------------------------------------------------------------------

let chosen = "";
/** @type {View | null} */
let view = null;

/** The run on show: its follower, its transcript, and the nodes that the transcript's blocks became. */
class View {
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

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.#follow = new Follow(`runs/${encodeURIComponent(id)}/events`);
    $("log").replaceChildren();
    $("facts").replaceChildren();
    $("id").textContent = id;
    $("worker").textContent = "";
    $("stop").hidden = true;
    this.#read();
    this.look();
  }

  close() {
    this.#closed = true;
    this.#follow.close();
  }

  nudge() {
    this.#follow.nudge();
  }

  /** Fetch the status document; the log tells what was said, the row tells how the run is doing. */
  async look() {
    const run = await ask(`runs/${encodeURIComponent(this.id)}`).catch(() => null); // the list tells when it fails
    if (!run || this.#closed) return;
    entryOf(run);
    this.learn(run);
  }

  /** Take the status document, or the part of it that a heartbeat repeats. @param {any} told */
  learn(told) {
    if (this.#run && isSettled(this.#run) && told.status && !isSettled(told)) return; // overtaken
    this.#run = { ...this.#run, ...told };
    if (!this.#run.worker) return; // a heartbeat came before the document
    put($("worker"), this.#run.worker);
    $("stop").hidden = isSettled(this.#run);
    $("stop").disabled = this.#run.stop_requested;
    this.#showFacts();
  }

  /** What changes by itself: ages, countdowns, and how long nothing was heard. */
  tick() {
    if (this.#run?.worker) this.#showFacts();
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
      if (item.kind === "events") this.#take(item.events);
      else if (item.kind === "link") this.#linked(item);
      else if (item.kind === "gap") this.#skip(item.data, item.events);
      else if (item.name === "heartbeat") this.learn(item.data);
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

  /** @param {import("./outlast.js").LogEvent[]} events */
  #take(events) {
    const log = $("log");
    const following = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    const { changed, rearranged } = this.#transcript.take(events);
    if (rearranged) this.#showAll();
    else for (const block of changed) this.#show(block, log);
    if (following) log.scrollTop = log.scrollHeight;
    this.learn({ head: events.at(-1)?.cursor });
    if (events.some((event) => event.type.startsWith("run."))) this.look();
  }

  /** @param {any} gap @param {import("./outlast.js").LogEvent[]} snapshot */
  #skip(gap, snapshot) {
    this.#transcript.skip(brief(gap.reason, 60), 0);
    this.#transcript.take(snapshot);
    this.#showAll();
  }

  #showAll() {
    $("log").replaceChildren();
    for (const block of this.#transcript.blocks) this.#show(block, $("log"));
  }

  /** @param {Block} block @param {HTMLElement} into */
  #show(block, into) {
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
    values[0].className = "badge";
    values[0].dataset.state = state(this.#run);
  }
}

// ---- where we are -------------------------------------------------------------------------------

/** @param {string} hash */
function decoded(hash) {
  try {
    return decodeURIComponent(hash);
  } catch {
    return hash; // typed by hand; no run is called so, and the server will say it
  }
}

/** The address says which run is on show, so a reload comes back to it. */
function choose() {
  const id = decoded(location.hash.slice(1));
  if (id === chosen && view) return;
  view?.close();
  chosen = id;
  view = id ? new View(id) : null;
  $("run").hidden = !id;
  $("empty").hidden = Boolean(id);
  document.body.classList.toggle("reading", Boolean(id));
  document.title = id ? `${id} · Outlast` : "Outlast";
  showList();
}

$("now").addEventListener("click", () => view?.nudge());
addEventListener("online", () => view?.nudge());
addEventListener("hashchange", choose);
document.addEventListener("visibilitychange", () => document.hidden || view?.nudge());
setInterval(() => {
  view?.tick();
  showList();
}, 1_000);
choose();
keepLooking();
