// @ts-check
/** The keyboard and the colours: what a key does, and light, dark, or as the system is. */
import { $ } from "./words.js";

const THEMES = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "○", dark: "●" };
const KEPT = "outlast.theme";

/** @param {string} theme */
function paint(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").ariaLabel = `Colours: ${theme === "system" ? "as the system" : theme}`;
  $("theme").title = $("theme").ariaLabel;
  $("theme").firstElementChild.textContent = SIGNS[/** @type {keyof typeof SIGNS} */ (theme)];
}

/** What was chosen before; a browser that keeps nothing follows the system. */
function kept() {
  try {
    const theme = localStorage.getItem(KEPT) ?? "";
    return THEMES.includes(theme) ? theme : "system";
  } catch {
    return "system";
  }
}

/** Let the colours be chosen. */
export function themes() {
  let theme = kept();
  paint(theme);
  $("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    paint(theme);
    try {
      localStorage.setItem(KEPT, theme);
    } catch {
      // it holds for as long as the page does
    }
  });
}

/**
 * Listen to the keys of the page; what is typed into a field, or with a modifier, is none of ours.
 * @param {{step: (by: number) => void, stop: () => void, back: () => void}} acts
 */
export function keys(acts) {
  $("help").addEventListener("click", () => $("keys").showModal());
  /** @type {Record<string, () => void>} */
  const does = {
    j: () => acts.step(1),
    k: () => acts.step(-1),
    "/": () => $("filter").focus(),
    s: acts.stop,
    "?": () => $("keys").showModal(),
    Escape: acts.back,
  };
  document.addEventListener("keydown", (event) => {
    const at = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (at.matches("input, textarea, select")) {
      if (event.key === "Escape") at.blur();
      return;
    }
    const arrow = at.closest("#runs") && { ArrowDown: does.j, ArrowUp: does.k }[event.key];
    const act = arrow || does[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
