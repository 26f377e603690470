// What was forgotten is kept in this page alone until it is left, and brought back by an import of it.

import { ask } from "./api.js";
import { h, problem, say } from "./dom.js";

export class Undo {
  constructor() {
    this.bar = h("div", { class: "undo", role: "status", hidden: true });
  }

  /** Offers to bring back what an export of before the deletion holds. */
  offer(sentence, exported, done) {
    const back = async () => {
      button.disabled = true;
      try {
        await ask("/import?kind=jsonl", { method: "POST", body: exported });
        this.bar.hidden = true;
        say("It is back");
        done();
      } catch (error) {
        this.bar.append(problem(error));
        button.disabled = false;
      }
    };
    const button = h("button", { type: "button", onclick: back }, "Undo");
    this.bar.replaceChildren(h("span", {}, `${sentence}. It can be undone until you leave this view.`), button);
    this.bar.hidden = false;
    button.focus();
  }
}

/** Asks a person in plain words; settles on whether they agreed. */
export function confirm(title, sentence) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "confirm-title", onclose: () => { dialog.remove(); resolve(dialog.returnValue === "yes"); } },
      h("form", { method: "dialog" }, h("h2", { id: "confirm-title" }, title), h("p", {}, sentence),
        h("div", { class: "row" }, h("button", { value: "no", autofocus: true }, "Keep it"), h("button", { value: "yes", class: "danger" }, "Forget it"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}
