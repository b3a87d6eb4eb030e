// @ts-check
/**
 * The list of runs: looked at again and again, filtered, walked through with the keyboard.
 *
 * Rules of this file
 * 1. The status is filtered by the server, text by the page among the runs it knows; both are said when nothing fits.
 * 2. One item is a stop for Tab; the arrows, or j and k, go on from there.
 */
import { make } from "./blocks.js";
import { $, age, ask, isSettled, put, state } from "./words.js";

/** @typedef {{run: any, item: HTMLElement, link: HTMLAnchorElement, parts: HTMLElement[]}} Entry */

export class List {
  /** @type {Map<string, Entry>} */
  #listed = new Map();
  /** @type {string | null} */ #beyond = null;
  #paged = false;
  #asked = false;
  chosen = "";
  /** Hears of every run that a look brought. @type {(run: any) => void} */
  learned = () => {};

  constructor() {
    $("runs").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const end = { Home: -Infinity, End: Infinity }[event.key];
      if (end === undefined) return;
      event.preventDefault();
      this.step(end);
    });
    $("older").addEventListener("click", () => this.#older());
    $("filter").addEventListener("input", () => this.show());
    $("status").addEventListener("change", () => {
      this.#listed.clear();
      this.#beyond = null;
      this.#paged = this.#asked = false;
      this.show();
      this.look().catch(() => {}); // the next look tells
    });
  }

  /** The page of runs before the oldest one known. */
  #older() {
    return this.look(this.#beyond).catch(() => put($("none"), "The older runs could not be fetched."));
  }

  /** @param {string | null} [after] */
  async look(after = null) {
    const status = $("status").value;
    const query = new URLSearchParams({ ...(status && { status }), ...(after && { after }) });
    const page = await ask(query.size ? `runs?${query}` : "runs");
    if (status !== $("status").value) return; // another filter was chosen meanwhile
    for (const run of page.runs) {
      this.take(run);
      this.learned(run);
    }
    if (after || !this.#paged) this.#beyond = page.next ?? null; // the newest do not forget how far back we went
    this.#paged ||= Boolean(after);
    this.#asked = true;
    this.show();
  }

  /** Take a run in: its one place in the list, whose nodes stay, since people click on them. @param {any} run */
  take(run) {
    const entry = this.#listed.get(run.id);
    if (entry) {
      if (!isSettled(entry.run)) entry.run = run; // settled is settled
      return;
    }
    const parts = [make("span", "name"), make("span", "badge"), make("code"), make("span", "aside")];
    const link = /** @type {HTMLAnchorElement} */ (make("a", "", ...parts));
    link.href = `#${encodeURIComponent(run.id)}`;
    this.#listed.set(run.id, { run, item: make("li", "", link), link, parts });
  }

  show() {
    const entries = this.#fitting();
    for (const { run, link, parts } of entries) {
      const used = run.budget.life.used;
      const takeovers = used > 0 ? `${used} takeover${used > 1 ? "s" : ""} · ` : "";
      const named = run.thread ? `${run.id} · ${run.thread}` : run.id;
      [run.worker, state(run), named, takeovers + age(run.created_at)].forEach((text, place) => put(parts[place], text));
      parts[1].dataset.state = state(run);
      link.ariaCurrent = run.id === this.chosen ? "true" : null;
    }
    const items = entries.map(({ item }) => item);
    const shown = $("runs").children;
    if (items.length !== shown.length || items.some((item, place) => shown[place] !== item)) {
      const focused = /** @type {HTMLElement | null} */ (document.activeElement);
      $("runs").replaceChildren(...items);
      if (focused?.isConnected && $("runs").contains(focused)) focused.focus();
    }
    const stop = entries.find(({ run }) => run.id === this.chosen) ?? entries[0];
    for (const entry of entries) entry.link.tabIndex = entry === stop ? 0 : -1;
    this.#tellNone(entries.length);
    $("older").hidden = this.#beyond === null;
  }

  /** @param {number} count */
  #tellNone(count) {
    $("none").hidden = count > 0;
    const filtered = $("filter").value || $("status").value;
    put($("none"), !this.#asked ? "Loading the runs…" : filtered ? "No run fits the filter." : "No run yet.");
  }

  #fitting() {
    const wanted = $("filter").value.trim().toLowerCase();
    const status = $("status").value;
    const entries = [...this.#listed.values()].filter(({ run }) => {
      if (status && run.status !== status) return false;
      return [run.worker, run.id, run.thread ?? ""].some((text) => text.toLowerCase().includes(wanted));
    });
    return entries.sort((one, other) => (one.run.created_at < other.run.created_at ? 1 : -1));
  }

  /** Move the focus among the runs. @param {number} by 1 for the next, -1 for the one before */
  step(by) {
    const links = [...$("runs").querySelectorAll("a")];
    if (links.length === 0) return;
    const at = links.indexOf(document.activeElement);
    const here = at >= 0 ? at : links.findIndex((link) => link.ariaCurrent === "true");
    const there = here < 0 ? 0 : Math.min(links.length - 1, Math.max(0, here + by));
    links[there].focus();
  }
}
