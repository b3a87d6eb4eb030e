// @ts-check
/**
 * A run's life by time, drawn as SVG: who held it, and what happened when.
 *
 * Rules of this file
 * 1. Everything is a named element with attributes that are numbers; colours and fonts belong to the style sheet.
 * 2. What the drawing tells, the list beside it tells in words: a drawing is one image to who cannot see it.
 */
import { make } from "./blocks.js";
import { $, age, isSettled, now, put } from "./words.js";

const HEIGHT = 62;
const LANE = { top: 22, height: 16 };
const SIDE = 8;
/** Pixels between two labels: closer ones are left to the list. */
const APART = 74;
const KINDS = { claim: "claimed", takeover: "takeover", handoff: "hand-off", settle: "settled" };

/**
 * @typedef {{epoch: number, node: string | null, at: string, kind: "claim" | "takeover" | "handoff" | "settle",
 *   cause: string | null, calls: number}} Entry
 * @typedef {{at: number, kind: string, text: string}} Mark
 */

/** @param {string} name @param {string} kind @param {Record<string, number>} at @param {string} [text] */
function drawn(name, kind, at, text) {
  const node = document.createElementNS($("chart").namespaceURI, name);
  node.setAttribute("class", kind);
  for (const [attribute, value] of Object.entries(at)) node.setAttribute(attribute, value.toFixed(1));
  if (text !== undefined) node.textContent = text;
  return node;
}

/** @param {Entry} entry */
const named = (entry) => KINDS[entry.kind] + (entry.cause && entry.kind === "takeover" ? ` (${entry.cause})` : "");

/** What happened, oldest first. @param {any} run @param {Entry[]} lineage @param {number[]} checkpoints @returns {Mark[]} */
export function marksOf(run, lineage, checkpoints) {
  /** @type {Mark[]} */
  const marks = lineage
    .filter(({ kind }) => kind !== "settle")
    .map((entry) => ({ at: Date.parse(entry.at), kind: entry.kind, text: named(entry) }));
  marks.push(...checkpoints.map((at) => ({ at, kind: "checkpoint", text: "checkpoint" })));
  if (run.settled_at) {
    const text = run.status === "cancelled" ? "stopped" : run.status;
    marks.push({ at: Date.parse(run.settled_at), kind: run.status, text });
  }
  return marks.sort((one, other) => one.at - other.at);
}

/**
 * Draw it into `chart`, as wide as that is.
 * @param {SVGElement} chart @param {any} run @param {Entry[]} lineage @param {number[]} checkpoints
 */
export function draw(chart, run, lineage, checkpoints) {
  const width = chart.clientWidth || 320;
  const marks = marksOf(run, lineage, checkpoints);
  const begin = Date.parse(run.created_at);
  const end = Math.max(run.settled_at ? Date.parse(run.settled_at) : now(), begin + 1000);
  /** @param {number} at */
  const x = (at) => SIDE + ((width - 2 * SIDE) * Math.min(Math.max(at - begin, 0), end - begin)) / (end - begin);
  chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  chart.setAttribute("aria-label", told(run, marks));
  const lane = { y: LANE.top, height: LANE.height, rx: 3 };
  const bars = lineage.flatMap((entry, place) => {
    if (entry.kind === "settle") return [];
    const from = x(Date.parse(entry.at));
    const to = x(place + 1 < lineage.length ? Date.parse(lineage[place + 1].at) : end);
    const tone = `bar ${place % 2 ? "odd" : "even"}${isSettled(run) || place + 1 < lineage.length ? "" : " live"}`;
    const bar = drawn("rect", tone, { x: from, width: Math.max(2, to - from), ...lane });
    bar.append(drawn("title", "", {}, `epoch ${entry.epoch}, node ${entry.node}`));
    return [bar];
  });
  const track = drawn("rect", "track", { x: SIDE, width: width - 2 * SIDE, ...lane });
  chart.replaceChildren(track, ...bars, ...marks.flatMap((mark) => signs(mark, x(mark.at))));
  chart.append(...labels(marks, x, width), ...scale(begin, end, width, run));
}

/** @param {Mark} mark @param {number} x */
function signs(mark, x) {
  const dot = ["completed", "failed", "cancelled"].includes(mark.kind);
  const middle = LANE.top + LANE.height / 2;
  const sign = dot
    ? drawn("circle", `mark ${mark.kind}`, { cx: x, cy: middle, r: 6 })
    : drawn("line", `mark ${mark.kind}`, { x1: x, x2: x, y1: LANE.top - 4, y2: LANE.top + LANE.height + 4 });
  sign.append(drawn("title", "", {}, `${mark.text}, ${new Date(mark.at).toLocaleTimeString()}`));
  return [sign];
}

/** The labels that have room, what went wrong first. @param {Mark[]} marks @param {(at: number) => number} x @param {number} width */
function labels(marks, x, width) {
  /** @type {[number, number][]} */ const taken = [];
  return ["takeover", "handoff", "claim"].flatMap((kind) =>
    marks.flatMap((mark) => {
      if (mark.kind !== kind) return [];
      const wide = Math.max(APART, mark.text.length * 6.5);
      const here = Math.max(SIDE, Math.min(x(mark.at), width - SIDE - wide));
      if (taken.some(([from, to]) => here < to && here + wide > from)) return [];
      taken.push([here, here + wide]);
      return [drawn("text", `label ${kind}`, { x: here, y: 13 }, mark.text)];
    }),
  );
}

/** @param {number} begin @param {number} end @param {number} width @param {any} run */
function scale(begin, end, width, run) {
  const seconds = (end - begin) / 1000;
  const span =
    seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  const last = drawn("text", "scale end", { x: width - SIDE, y: HEIGHT - 6 }, `${span}${run.settled_at ? "" : ", now"}`);
  return [drawn("text", "scale", { x: SIDE, y: HEIGHT - 6 }, new Date(begin).toLocaleTimeString()), last];
}

/** The drawing in one sentence. @param {any} run @param {Mark[]} marks */
function told(run, marks) {
  const count = marks.filter(({ kind }) => kind === "takeover").length;
  const takeovers = count === 1 ? "1 takeover" : `${count} takeovers`;
  return `Timeline: ${takeovers}, ${isSettled(run) ? run.status : "still going on"}; the list below tells each claim.`;
}

/** @param {HTMLElement} list @param {Entry[]} lineage */
export function enumerate(list, lineage) {
  const lines = lineage.map((entry) => {
    const calls = `${entry.calls} call${entry.calls === 1 ? "" : "s"} before`;
    const node = entry.node ? `node ${entry.node.slice(0, 8)}` : "by nobody";
    return [`epoch ${entry.epoch}`, named(entry), node, calls, `${age(entry.at)} ago`].join(" · ");
  });
  while (list.children.length > lines.length) list.lastElementChild?.remove();
  lines.forEach((line, place) => put(list.children[place] ?? list.appendChild(make("li")), line));
}
