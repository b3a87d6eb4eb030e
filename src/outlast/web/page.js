// @ts-check
/**
 * The page: lists runs, starts and stops them, and shows one live.
 *
 * Rules of this file
 * 1. What a run says is text and never markup: nodes are made by name and filled through `textContent`.
 * 2. Every address is relative, so the page works wherever the application is mounted.
 * 3. Three things are shown apart: the server (top), this page's connection to the run, and the run's own recovery.
 */
import { make } from "./blocks.js";
import { showNodes } from "./fleet.js";
import { keys, themes } from "./keys.js";
import { List } from "./list.js";
import { View } from "./view.js";
import { $, ask, post, sentence, tell } from "./words.js";

/** Milliseconds between looks at the list; the run itself is followed and needs none. */
const LOOK = 2_000;

const list = new List();
/** @type {View | null} */
let view = null;

list.learned = (run) => {
  if (run.id === list.chosen) view?.learn(run);
};

/** Look again and again; a page that nobody sees asks nothing. */
async function keepLooking() {
  if (!document.hidden) {
    try {
      if ($("start").worker.options.length === 0) showWorkers((await ask("healthz")).workers);
      const { nodes } = await ask("nodes");
      await list.look();
      if ($("server").dataset.tone === "bad") view?.nudge(); // it is back: no need to wait for the pause to end
      showNodes(nodes);
    } catch {
      tell($("server"), "bad", "the server does not answer, trying again");
    }
  }
  setTimeout(keepLooking, LOOK);
}

// ---- starting and stopping ----------------------------------------------------------------------

/** @param {string[]} workers */
function showWorkers(workers) {
  $("start").worker.replaceChildren(...workers.map((name) => make("option", "", name)));
}

$("start").addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  const form = $("start");
  try {
    const input = JSON.parse(form.input.value || "null");
    const run = await post("runs", { worker: form.worker.value, input });
    tell(form.answer, "good", "");
    list.take(run);
    location.hash = encodeURIComponent(run.id);
  } catch (problem) {
    tell(form.answer, "bad", problem instanceof SyntaxError ? "The input is not JSON." : sentence(problem));
  }
});

function askToStop() {
  if (view?.canStop) $("stopping").showModal();
}

$("stop").addEventListener("click", askToStop);
$("stopping").addEventListener("close", async () => {
  const asked = $("stopping").returnValue === "stop";
  $("stopping").returnValue = "";
  if (!asked || !view) return;
  const stopped = view;
  $("stop").disabled = true;
  try {
    await post(`runs/${encodeURIComponent(stopped.id)}/stop`, {});
  } catch (problem) {
    stopped.tellLink("bad", sentence(problem));
  }
  await stopped.look();
});

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
  if (id === list.chosen && view) return;
  $("stopping").close(""); // it asked about the run that was on show
  view?.close();
  list.chosen = id;
  view = id ? new View(id, (run) => list.take(run)) : null;
  $("run").hidden = !id;
  $("empty").hidden = Boolean(id);
  document.body.classList.toggle("reading", Boolean(id));
  document.title = id ? `${id} · Outlast` : "Outlast";
  list.show();
}

themes();
keys({
  step: (by) => list.step(by),
  stop: askToStop,
  back: () => {
    location.hash = "";
  },
});
$("skip").addEventListener("click", (/** @type {Event} */ event) => {
  event.preventDefault();
  (view ? $("log") : $("empty")).focus();
});
$("now").addEventListener("click", () => view?.nudge());
addEventListener("online", () => view?.nudge());
addEventListener("resize", () => view?.tick());
addEventListener("hashchange", choose);
document.addEventListener("visibilitychange", () => document.hidden || view?.nudge());
setInterval(() => {
  view?.tick();
  list.show();
}, 1_000);
choose();
keepLooking();
