// @ts-check
/** The nodes of the store: which live, how long their leases last, and how late their event loops are. */
import { make } from "./blocks.js";
import { $, put, tell } from "./words.js";

/** Seconds that the loop of a node may lag before that is worth a word. */
const LATE = 0.5;

/** @typedef {{id: string, live: boolean, lease_left: number | null, lapsed_for: number | null, stalled: boolean, loop_lag: number}} Member */

/** What is wrong with a node, empty when nothing is. @param {Member} node */
const wrong = (node) =>
  node.stalled
    ? "its event loop stood still, and it gave its runs up"
    : node.live && node.loop_lag >= LATE
      ? `its event loop lags ${node.loop_lag.toFixed(1)} s`
      : "";

/** @param {Member} node */
export function nodeLine(node) {
  const name = `node ${node.id.slice(0, 8)}`;
  if (!node.live) return [name, wrong(node) || "died", `${Math.round(node.lapsed_for)} s ago`].join(" · ");
  const lag = wrong(node) || `loop lag ${Math.round(node.loop_lag * 1000)} ms`;
  return [name, `lease ends in ${node.lease_left.toFixed(0)} s`, lag].join(" · ");
}

/** The nodes in one sentence, and whether it is worth a look. @param {Member[]} nodes @returns {[string, string]} */
export function fleetLine(nodes) {
  const bad = nodes.find(wrong);
  if (bad) return ["warn", `connected; node ${bad.id.slice(0, 8)}: ${wrong(bad)}`];
  const live = nodes.filter((node) => node.live).length;
  return ["good", live > 1 ? `connected; ${live} nodes` : "connected"];
}

/** @param {Member[]} nodes */
export function showNodes(nodes) {
  const list = $("nodes");
  while (list.children.length > nodes.length) list.lastElementChild.remove();
  nodes.forEach((node, place) => put(list.children[place] ?? list.appendChild(make("li")), nodeLine(node)));
  $("fleet").hidden = nodes.length === 0;
  tell($("server"), ...fleetLine(nodes));
}
