// Elements from data. Text becomes text and nothing else: no markup is ever parsed here.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element with attributes (`onclick` and the like are listeners) and children. */
export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** The same for drawings. */
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** Says something to who cannot see that it has changed. */
export function say(text) {
  document.getElementById("live").textContent = text;
}

const PARTS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];

/** A moment as a <time> in the reader's own words and zone. */
export function moment(iso) {
  const date = new Date(iso);
  const whole = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return h("time", { datetime: iso, title: ago(date) }, whole);
}

function ago(date) {
  const seconds = (date - Date.now()) / 1000;
  const format = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
  const [unit, size] = PARTS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return format.format(Math.round(seconds / size), unit);
}

/** Text with stretches ([start, end] in UTF-16 units) marked. */
export function marked(text, marks) {
  const parts = [];
  let at = 0;
  for (const [start, end] of marks) {
    parts.push(text.slice(at, start), h("mark", {}, text.slice(start, end)));
    at = end;
  }
  return [...parts, text.slice(at)];
}

export const number = (value, digits = 0) =>
  value.toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** What a view shows while it has nothing else: a sentence, and what to do. */
export const state = (text, ...more) => h("div", { class: "state" }, h("p", {}, text), ...more);

/** A failure as one sentence for a person. */
export const problem = (error) => h("p", { class: "problem", role: "alert" }, error.message);

/** Debounced: runs once it was not called for a while. */
export function soon(work, milliseconds) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}
