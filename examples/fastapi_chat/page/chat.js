// @ts-check
/**
 * The page: asks, streams the answers with EventSource, and finds its place again after a reload.
 *
 * A chat is a thread; its id is in the address. The ids of its runs are in sessionStorage, and nothing else: what was
 * said is in the log of each run, which is read again from its beginning. Where only the connection is lost, the
 * EventSource comes back by itself with the cursor of the last event it saw, and misses nothing.
 */

const RUNS = "agents/runs";
/** Milliseconds before a stream that was refused is tried again; EventSource tries again only what was cut. */
const AGAIN = 2_000;

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** @typedef {{id: string, text: string}} Turn */

const thread = location.hash.slice(1) || crypto.randomUUID();
history.replaceState(null, "", `#${thread}`);
/** @type {Turn[]} */
const turns = JSON.parse(sessionStorage.getItem(thread) ?? "[]");
let live = "";

/** @param {string} kind @param {string} [text] */
function make(kind, text = "") {
  const made = document.createElement("div");
  made.className = kind;
  made.textContent = text; // text, never markup: a model may say anything
  return made;
}

/** Show one turn, and follow its run to the end. @param {Turn} turn */
function show(turn) {
  const block = make("turn");
  const said = make("said");
  block.append(make("question", turn.text), said);
  $("turns").append(block);
  return follow(turn, said);
}

/** @param {Turn} turn @param {HTMLElement} said */
function follow(turn, said) {
  let cursor = "0";
  live = turn.id;
  tell("");

  /** @type {Record<string, (data: any) => void>} */
  const heard = {
    "run.restarted": () => {
      // Another process took over and called the worker again: what was said before no longer counts.
      said.replaceChildren();
    },
    text: (data) => {
      let answer = said.lastElementChild;
      if (answer?.className !== "answer") said.append((answer = make("answer")));
      answer.textContent += data;
    },
    "tool.call": (data) => {
      const asked = Object.values(data.arguments).join(", ");
      const line = make("tool", `${data.tool}(${asked})`);
      line.dataset.id = data.id;
      said.append(line);
    },
    "tool.result": (data) => {
      const line = [...said.children].find((each) => /** @type {HTMLElement} */ (each).dataset.id === data.id);
      if (line) line.textContent += ` → ${data.result}`;
    },
    "run.completed": () => {},
    "run.failed": (data) => said.append(make("note", data.message)),
    "run.cancelled": () => said.append(make("note", "Stopped.")),
  };
  const ends = new Set(["run.completed", "run.failed", "run.cancelled"]);

  return new Promise((resolve) => {
    const open = () => {
      const source = new EventSource(`${RUNS}/${turn.id}/events?after=${cursor}`);
      for (const [type, hear] of Object.entries(heard)) {
        source.addEventListener(type, (event) => {
          cursor = event.lastEventId;
          tell("");
          hear(JSON.parse(event.data));
          if (ends.has(type)) {
            source.close();
            live = "";
            tell("");
            resolve(null);
          }
        });
      }
      source.onerror = () => {
        tell("The connection is lost; the answer goes on without us. Trying again …");
        if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN);
      };
    };
    open();
  });
}

/** @param {string} state */
function tell(state) {
  $("state").textContent = state;
  $("send").disabled = live !== "";
  $("stop").hidden = live === "";
}

/** @param {string} url @param {object} body */
function post(url, body) {
  return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

$("ask").addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  const turn = { id: crypto.randomUUID(), text: $("ask").text.value };
  $("send").disabled = true;
  try {
    // The id is ours, so asking again after a lost answer is the same run and not a second one.
    const answer = await post(RUNS, { id: turn.id, worker: "chat", thread, input: { text: turn.text } });
    if (!answer.ok) return tell((await answer.json()).detail);
  } catch {
    return tell("The server does not answer. Ask again.");
  }
  $("ask").text.value = "";
  turns.push(turn);
  sessionStorage.setItem(thread, JSON.stringify(turns));
  show(turn);
});

$("stop").addEventListener("click", () => post(`${RUNS}/${live}/stop`, {}));

$("new").addEventListener("click", (/** @type {Event} */ event) => {
  event.preventDefault();
  location.hash = "";
  location.reload();
});

for (const turn of turns) await show(turn);
