// @ts-check
/** The words and numbers of the page: ages, states, facts; and how a text is put in its place. */
import { problemOf } from "./outlast.js";

/** The server's clock less ours, in milliseconds: ages are told by the clock that set the times. */
let skew = 0;

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

/** Milliseconds since 1970, by the server's clock. */
export const now = () => Date.now() + skew;

/** @param {string} time */
export function age(time) {
  const seconds = Math.max(0, Math.round((now() - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** @param {any} run */
export const isSettled = (run) => ["completed", "failed", "cancelled"].includes(run.status);

/** @param {any} run */
export const state = (run) =>
  isSettled(run) ? run.status : run.recovering ? "recovering" : run.stop_requested ? "stopping" : run.status;

/** @param {any} problem */
export const sentence = (problem) =>
  problem?.code ? `${problem.detail} (${problem.code})` : "The server does not answer.";

/** @param {string} url @param {RequestInit} [options] */
export async function ask(url, options = {}) {
  const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(10_000), ...options });
  if (!response.ok) throw await problemOf(response);
  skew = Date.parse(response.headers.get("date") ?? "") - Date.now() || 0;
  return response.json();
}

/** @param {string} url @param {object} body */
export const post = (url, body) =>
  ask(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/**
 * Put a text in, unless it is there: it would be read out again, and a selection in it lost.
 * @param {Node} place @param {string} text
 */
export function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** @param {HTMLElement} place @param {string} tone @param {string} text */
export function tell(place, tone, text) {
  place.dataset.tone = tone;
  put(place, text);
}
