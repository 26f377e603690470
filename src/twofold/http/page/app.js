// The shell: views by the address, which keeps what was asked, so that it can be shared and comes back on reload.

import { h, problem, say } from "./dom.js";
import { recall } from "./recall.js";
import { memory } from "./memory.js";
import { quality } from "./quality.js";

const VIEWS = { recall: ["Recall", recall], memory: ["Memory", memory], quality: ["Quality", quality] };
const main = document.getElementById("main");
let leave = () => {};

const parameters = () => new URLSearchParams(location.search);

/** What the address says; `view` is one of VIEWS. */
export function here() {
  const found = Object.fromEntries(parameters());
  return { ...found, view: VIEWS[found.view] ? found.view : "recall" };
}

function written(changes, whole) {
  const next = new URLSearchParams(whole ? {} : location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  return `${location.pathname}?${next}`;
}

/** Notes in the address what changed, without going anywhere. */
export const note = (changes) => history.replaceState(null, "", written(changes, false));

/** Goes to another place. */
export function go(place) {
  history.pushState(null, "", written(place, true));
  show();
}

/** A link to a place in the page. */
export function link(place, attributes, ...children) {
  const follow = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(place);
  };
  return h("a", { href: written(place, true), onclick: follow, ...attributes }, ...children);
}

async function show() {
  leave();
  const place = here();
  const [title, view] = VIEWS[place.view];
  document.title = `${title} · Twofold`;
  document.getElementById("views").replaceChildren(
    ...Object.entries(VIEWS).map(([name, [label]]) =>
      link({ view: name }, { "aria-current": name === place.view ? "page" : null }, label)),
  );
  const root = h("div", { class: "ask" });
  main.replaceChildren(h("h1", { class: "unseen" }, title), root);
  try {
    leave = (await view(root, place)) ?? (() => {});
  } catch (error) {
    leave = () => {};
    root.replaceChildren(problem(error), h("button", { type: "button", onclick: show }, "Try again"));
  }
}

const THEMES = ["system", "light", "dark"];

function dress(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("twofold-theme", theme);
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${theme}`;
  button.onclick = () => {
    dress(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    say(`Theme: ${localStorage.getItem("twofold-theme")}`);
  };
}

dress(THEMES.includes(localStorage.getItem("twofold-theme")) ? localStorage.getItem("twofold-theme") : "system");
addEventListener("popstate", show);
show();
