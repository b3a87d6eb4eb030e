// @ts-check
/**
 * Folds a run's events into what a person reads: text that flows, tool lines, notes about the run itself.
 *
 * Rules of this file
 * 1. Adjacent `text` events are one block. A tool's answer joins the line of its call.
 * 2. `run.restarted {keep}` folds away what came after seq `keep`. It stays readable, as a block of its own, and the
 *    notes stay where they are: who took over, and why.
 * 3. Nothing here knows the page: blocks are data, and `take` tells which of them changed.
 */

/**
 * @typedef {import("./outlast.js").LogEvent} LogEvent
 * @typedef {{kind: "text", seqs: number[], pieces: string[]}} TextBlock
 * @typedef {{given: any, answered: boolean, answer: any}} Use
 * @typedef {{kind: "tool", seqs: number[], id: string, name: string} & Use} ToolBlock
 * @typedef {{kind: "event", seqs: number[], type: string, data: any}} EventBlock
 * @typedef {{kind: "note", tone: "plain" | "warn" | "good" | "bad", text: string}} NoteBlock
 * @typedef {{kind: "folded", blocks: SaidBlock[], words: number, tools: number}} FoldedBlock
 * @typedef {TextBlock | ToolBlock | EventBlock} SaidBlock
 * @typedef {SaidBlock | NoteBlock | FoldedBlock} Block
 */

export class Transcript {
  /** @type {Block[]} */
  blocks = [];
  /** Calls that wait for their answer, by their id. @type {Map<string, ToolBlock>} */
  #open = new Map();
  #last = 0;

  /**
   * Take events in order.
   * @param {LogEvent[]} events
   * @returns {{changed: Set<Block>, rearranged: boolean}} rearranged: blocks were taken out or put in between
   */
  take(events) {
    /** @type {Set<Block>} */ const changed = new Set();
    let rearranged = false;
    for (const event of events) {
      if (event.type === "run.restarted") rearranged = this.#rewind(event.data?.keep ?? 0) || rearranged;
      this.#last = event.seq;
      changed.add(event.type.startsWith("run.") ? this.#add(noteOf(event)) : this.#say(event));
    }
    return { changed, rearranged };
  }

  /**
   * Go on behind a gap: what came up to `seq` cannot be served, or is not what we were told before.
   * @param {string} reason @param {number} seq
   */
  skip(reason, seq) {
    if (seq < this.#last) {
      this.blocks = []; // it is told again from there
      this.#open.clear();
    }
    this.#last = seq;
    this.#add({ kind: "note", tone: "warn", text: `a part of the log is missing here (${reason})` });
  }

  /** @template {Block} B @param {B} block */
  #add(block) {
    this.blocks.push(block);
    return block;
  }

  /** @param {LogEvent} event @returns {Block} */
  #say({ seq, type, data }) {
    const last = this.blocks.at(-1);
    if (type === "text" && typeof data === "string") {
      if (last?.kind !== "text") return this.#add({ kind: "text", seqs: [seq], pieces: [data] });
      last.seqs.push(seq);
      last.pieces.push(data);
      return last;
    }
    if (type === "tool.call") {
      const name = String(data?.tool ?? data?.name ?? "tool");
      /** @type {ToolBlock} */
      const call = {
        kind: "tool",
        seqs: [seq],
        id: String(data?.id),
        name,
        given: data?.arguments ?? data?.input,
        answered: false,
        answer: null,
      };
      return this.#wait(this.#add(call));
    }
    const call = type === "tool.result" ? this.#open.get(String(data?.id)) : undefined;
    if (!call) return this.#add({ kind: "event", seqs: [seq], type, data });
    this.#open.delete(call.id);
    call.seqs.push(seq);
    call.answered = true;
    call.answer = data.result ?? data.output ?? data.error;
    return call;
  }

  /** @param {ToolBlock} call */
  #wait(call) {
    this.#open.set(call.id, call);
    return call;
  }

  /** @param {number} keep @returns {boolean} whether anything was taken back */
  #rewind(keep) {
    this.#open.clear();
    /** @type {Block[]} */ const kept = [];
    /** @type {SaidBlock[]} */ const folded = [];
    for (const block of this.blocks) {
      if (block.kind === "note" || block.kind === "folded" || block.seqs.every((seq) => seq <= keep)) kept.push(block);
      else if (block.kind === "text" && block.seqs[0] <= keep) {
        const cut = block.seqs.findIndex((seq) => seq > keep);
        kept.push({ kind: "text", seqs: block.seqs.slice(0, cut), pieces: block.pieces.slice(0, cut) });
        folded.push({ kind: "text", seqs: block.seqs.slice(cut), pieces: block.pieces.slice(cut) });
      } else if (block.kind === "tool" && block.seqs[0] <= keep) {
        // Its answer was taken back, and may come again.
        kept.push(this.#wait({ ...block, seqs: [block.seqs[0]], answered: false, answer: null }));
      } else folded.push(block);
    }
    const same = kept.length === this.blocks.length && kept.every((block, place) => block === this.blocks[place]);
    this.blocks = kept;
    if (folded.length === 0) return !same;
    const text = folded.flatMap((block) => (block.kind === "text" ? block.pieces : [])).join("");
    const tools = folded.filter((block) => block.kind === "tool").length;
    kept.push({ kind: "folded", blocks: folded, words: text.split(/\s+/).filter(Boolean).length, tools });
    return true;
  }
}

/** @param {LogEvent} event @returns {NoteBlock} */
function noteOf({ type, data }) {
  switch (type) {
    case "run.started":
      return { kind: "note", tone: "plain", text: "started" };
    case "run.restarted":
      if (data?.cause === "handoff") {
        return { kind: "note", tone: "plain", text: `handed off — attempt ${data.attempt}` };
      }
      return { kind: "note", tone: "warn", text: `taken over — attempt ${data?.attempt}, cause: ${data?.cause}` };
    case "run.completed":
      return {
        kind: "note",
        tone: "good",
        text: "completed" + (data?.result == null ? "" : `: ${brief(data.result, 200)}`),
      };
    case "run.failed":
      return { kind: "note", tone: "bad", text: `failed (${data?.code})` + (data?.message ? `: ${data.message}` : "") };
    case "run.cancelled":
      return { kind: "note", tone: "plain", text: "stopped" + (data?.reason ? `: ${data.reason}` : "") };
    default:
      return { kind: "note", tone: "plain", text: type.slice("run.".length) };
  }
}

/** A value on one line, cut short. @param {any} value @param {number} length */
export function brief(value, length) {
  if (value === undefined) return "";
  if (value instanceof Uint8Array) return `${value.length.toLocaleString("en")} bytes`;
  const text = (typeof value === "string" ? value.slice(0, 2 * length) : JSON.stringify(value)).replace(/\s+/g, " ");
  return text.length > length ? text.slice(0, length) + "…" : text;
}

/** The arguments of a call as a person writes them: `heapq, merge`. @param {any} given */
export function briefly(given) {
  if (given === null || typeof given !== "object" || Array.isArray(given)) return brief(given, 120);
  return Object.values(given)
    .map((value) => brief(value, 60))
    .join(", ");
}
