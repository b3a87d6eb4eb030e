// @ts-check
/** Turns a transcript's blocks into nodes, and lets them grow. All that a run said goes in as text. */
import { brief, briefly } from "./transcript.js";

/** Characters of one text node: growing a longer one costs more than beginning another. */
const NODE = 4_096;
/** Lines that begin so are code. */
const INDENT = "    ";

/** @param {string} name @param {string} [className] @param {...(Node | string)} inside */
export function make(name, className = "", ...inside) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...inside);
  return element;
}

/**
 * The node of a block, and how to bring it up to date when the block has grown.
 * @param {import("./transcript.js").Block} block
 * @returns {{node: HTMLElement, grow: () => void}}
 */
export function nodeOf(block) {
  switch (block.kind) {
    case "text":
      return textNode(block);
    case "tool":
      return toolNode(block);
    case "event":
      return lineNode(
        "event",
        block.type,
        "",
        () => brief(block.data, 300),
        () => block.data,
      );
    case "note":
      return still(make("p", `note ${block.tone}`, block.text));
    case "folded":
      return still(foldedNode(block));
  }
}

/** @param {HTMLElement} node */
const still = (node) => ({ node, grow: () => {} });

/** Text that flows, line by line; indented lines are code. @param {import("./transcript.js").TextBlock} block */
function textNode(block) {
  const node = make("div", "text");
  let taken = 0;
  /** @type {HTMLElement} */ let line = make("span", "line");
  node.append(line);
  const grow = () => {
    const [first, ...rest] = block.pieces.slice(taken).join("").split("\n");
    taken = block.pieces.length;
    extend(line, first);
    for (const text of rest) {
      node.append((line = make("span", "line")));
      extend(line, text);
    }
  };
  return { node, grow };
}

/** @param {HTMLElement} line @param {string} text */
function extend(line, text) {
  if (text === "") return;
  const last = /** @type {Text | null} */ (line.lastChild);
  const begins = line.childNodes.length < 2 && (last?.length ?? 0) < INDENT.length;
  if (begins) line.classList.toggle("code", ((last?.data ?? "") + text).startsWith(INDENT));
  if (last && last.length < NODE) last.appendData(text);
  else line.append(text);
}

/** @param {import("./transcript.js").ToolBlock} block */
function toolNode(block) {
  const full = () => ({ arguments: block.given, result: block.answer });
  return lineNode(
    "tool",
    block.name,
    briefly(block.given),
    () => (block.answered ? brief(block.answer, 300) : "…"),
    full,
  );
}

/**
 * One compact line that opens to the whole value.
 * @param {string} kind @param {string} name @param {string} given @param {() => string} answer @param {() => any} full
 */
function lineNode(kind, name, given, answer, full) {
  const told = make("span", "answer");
  const whole = make("pre");
  const node = /** @type {HTMLDetailsElement} */ (
    make("details", kind, make("summary", "", make("b", "", name), make("span", "given", given), told), whole)
  );
  const grow = () => {
    told.textContent = answer();
    if (node.open) whole.textContent = pretty(full());
  };
  node.addEventListener("toggle", grow);
  return { node, grow };
}

/** @param {any} value */
const pretty = (value) => (value instanceof Uint8Array ? brief(value, 0) : JSON.stringify(value, null, 2));

/** What a takeover took back. @param {import("./transcript.js").FoldedBlock} block */
function foldedNode(block) {
  const told =
    `${block.words} word${block.words === 1 ? "" : "s"}` +
    (block.tools ? ` and ${block.tools} tool call${block.tools === 1 ? "" : "s"}` : "");
  const node = make("details", "folded", make("summary", "", `the attempt before: ${told}, folded away`));
  const fill = () => {
    for (const inner of block.blocks) {
      const { node: made, grow } = nodeOf(inner);
      grow();
      node.append(made);
    }
  };
  node.addEventListener("toggle", fill, { once: true });
  return node;
}
