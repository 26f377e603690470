// A session to read. Of thousands of messages only those that are seen are in the document: the others are room.

import { h, moment, number, problem, say } from "./dom.js";

const GUESS = 120; // pixels of a message that was not seen yet
const BEYOND = 600; // pixels above and below what is seen that are there as well
const LONGEST = 20000; // characters of a message that are shown at once

export class Conversation {
  /** `messages` in order; `actions` has edit(id, content) and forget(message); `episode` is to be seen first. */
  constructor(messages, actions, episode) {
    this.messages = messages;
    this.actions = actions;
    this.first = Math.max(0, messages.findIndex((one) => one.id === episode));
    this.current = messages[this.first]?.id === episode ? episode : null;
    this.heights = new Map();
    this.rows = new Map();
    this.room = h("div", { class: "room" });
    this.talk = h("div", { class: "talk", tabindex: "0", role: "feed", "aria-label": "Conversation", onscroll: () => this.schedule() }, this.room);
    this.found = h("span", { class: "soft", role: "status" });
    const find = h("input", { type: "search", id: "find", oninput: (event) => this.find(event.target.value, 0), onkeydown: (event) => {
      if (event.key === "Enter") { event.preventDefault(); this.find(event.target.value, event.shiftKey ? -1 : 1); }
    } });
    this.element = h("div", { class: "list" }, h("div", { class: "row" }, h("label", { for: "find" }, "Find in it"), find, this.found, h("span", { class: "soft" }, `${number(messages.length)} messages`)), this.talk);
    this.measure = new ResizeObserver((seen) => this.measured(seen));
  }

  /** Shows it, once it is in the document. */
  start() {
    this.place();
    this.talk.scrollTop = this.tops[this.first] ?? 0;
    this.draw();
    if (this.current) this.talk.scrollTop = this.tops[this.first];
  }

  end() {
    this.measure.disconnect();
  }

  height(index) {
    return this.heights.get(this.messages[index].id) ?? GUESS;
  }

  place() {
    let top = 0;
    this.tops = this.messages.map((_, index) => {
      const at = top;
      top += this.height(index);
      return at;
    });
    this.room.style.setProperty("height", `${top}px`);
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  index(pixel) {
    let low = 0;
    let high = this.tops.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= pixel) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  draw() {
    if (!this.messages.length) {
      this.room.replaceChildren(h("p", { class: "state" }, "Nothing was said in this session."));
      return;
    }
    const from = this.index(this.talk.scrollTop - BEYOND);
    const to = this.index(this.talk.scrollTop + this.talk.clientHeight + BEYOND);
    const wanted = new Set(this.messages.slice(from, to + 1).map((one) => one.id));
    for (const [id, row] of this.rows) {
      if (wanted.has(id) || row.contains(document.activeElement)) continue;
      this.measure.unobserve(row);
      row.remove();
      this.rows.delete(id);
    }
    let before = null;
    for (let index = from; index <= to; index++) {
      const one = this.messages[index];
      let row = this.rows.get(one.id);
      if (!row) {
        row = this.row(one, index);
        this.rows.set(one.id, row);
        if (before) before.after(row);
        else this.room.prepend(row);
        this.measure.observe(row);
      }
      row.style.setProperty("top", `${this.tops[index]}px`);
      before = row;
    }
  }

  measured(seen) {
    let moved = 0;
    for (const { target } of seen) {
      const id = Number(target.dataset.id);
      const height = target.offsetHeight;
      const index = this.messages.findIndex((one) => one.id === id);
      if (index < 0 || !height || height === this.heights.get(id)) continue;
      if (this.tops[index] + this.height(index) <= this.talk.scrollTop) moved += height - this.height(index);
      this.heights.set(id, height);
    }
    this.place();
    if (moved) this.talk.scrollTop += moved;
    this.draw();
  }

  row(one, index) {
    const hidden = one.metadata.hidden === true;
    const body = h("div", { class: "list" });
    const row = h("article", { class: "said", "data-id": one.id, "data-role": one.role, "aria-posinset": index + 1, "aria-setsize": this.messages.length, "aria-current": one.id === this.current ? "true" : null, "aria-labelledby": `said-${one.id}` },
      h("header", {}, h("strong", { id: `said-${one.id}` }, one.role), moment(one.time), h("span", { class: "soft" }, `#${one.id}`),
        hidden ? h("span", { class: "soft" }, "kept, not recalled") : null, one.metadata.edited === true ? h("span", { class: "soft" }, "edited") : null,
        h("button", { type: "button", class: "quiet", onclick: () => this.edit(one, body) }, "Edit"),
        h("button", { type: "button", class: "quiet", onclick: () => this.forget(one, row) }, "Forget")), body);
    shown(one, body);
    return row;
  }

  edit(one, body) {
    const field = h("textarea", { "aria-label": "What was said", value: one.content });
    const told = h("p", { role: "status" });
    const save = async () => {
      try {
        one.content = await this.actions.edit(one.id, field.value);
        shown(one, body);
        say("Saved");
      } catch (error) {
        told.replaceChildren(problem(error));
      }
    };
    body.replaceChildren(field, h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: save }, "Save"), h("button", { type: "button", onclick: () => shown(one, body) }, "Cancel")), told);
    field.focus();
  }

  async forget(one, row) {
    try {
      if (!(await this.actions.forget(one))) return;
      this.messages.splice(this.messages.indexOf(one), 1);
      this.measure.unobserve(row);
      row.remove();
      this.rows.delete(one.id);
      this.place();
      this.draw();
    } catch (error) {
      row.append(problem(error));
    }
  }

  find(text, step) {
    const low = text.trim().toLowerCase();
    const hits = low ? this.messages.flatMap((one, index) => (one.content.toLowerCase().includes(low) ? [index] : [])) : [];
    const now = hits.indexOf(this.foundAt);
    const next = step === 0 || now < 0 ? 0 : (now + step + hits.length) % hits.length;
    this.foundAt = hits[next];
    this.found.textContent = low ? (hits.length ? `${next + 1} of ${number(hits.length)}` : "not found") : "";
    if (this.foundAt === undefined) return;
    this.talk.scrollTop = this.tops[this.foundAt];
    this.draw();
    this.talk.scrollTop = this.tops[this.foundAt];
  }
}

/** A message as text and, between fences, code; a very long one in part. */
function shown(one, body) {
  const whole = one.content.length <= LONGEST;
  const parts = (whole ? one.content : one.content.slice(0, LONGEST)).split(/^```.*$/m);
  const more = whole ? null : h("button", { type: "button", onclick: () => body.replaceChildren(h("p", { class: "text" }, one.content)) }, `Show all ${number(one.content.length)} characters`);
  body.replaceChildren(...parts.flatMap((part, place) => {
    const text = part.replace(/^\n|\n$/g, "");
    if (!text) return [];
    return [place % 2 ? h("pre", { tabindex: "0" }, h("code", {}, text)) : h("p", { class: "text" }, text)];
  }), more ?? "");
}
