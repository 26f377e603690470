// Recall: what both retrievers bring, how it is fused, and why. The server brings the windows, the browser fuses them.

import { go, link, note } from "./app.js";
import { all, at, get, send } from "./api.js";
import { fused } from "./fusion.js";
import { h, marked, moment, number, problem, say, soon, state, svg } from "./dom.js";

const WAIT = 90; // milliseconds after the last key
const NAMES = { semantic: "Semantic", keyword: "Keyword", time: "Time" };
const METHODS = { auto: "As it fits", rrf: "RRF (ranks)", rsf: "RSF (scores)", dbsf: "DBSF (distributions)", convex: "Convex (completed scores)" };
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The view; `place` is what the address says. */
export async function recall(root, place) {
  const [settings, projects, sessions] = await Promise.all([get("/settings"), all("/projects", {}, 1000), all("/sessions", {}, 1000)]);
  if (!sessions.length && !place.q) return welcome(root);
  const set = {
    q: place.q ?? "", project: place.project ?? "", session: place.session ?? "",
    mode: place.mode ?? settings.weights, method: place.method ?? settings.method,
    semantic: Number(place.semantic ?? settings.semanticWeight), keyword: Number(place.keyword ?? settings.keywordWeight),
    limit: Number(place.limit ?? settings.semanticLimit),
  };
  const out = h("div", { class: "ask" });
  const view = new View(set, out);
  root.append(form(set, view, projects, sessions), out);
  if (set.q) await view.ask();
  else out.append(state("Ask for anything that was said. Both retrievers answer, and you see how the two rankings become one."));
  return () => view.end();
}

function welcome(root) {
  const load = async (event) => {
    event.target.disabled = true;
    try {
      const { added } = await (await send("POST", "/sample", {}));
      say(`${added} messages were added`);
      go({ view: "recall", q: "which bird keeps coming back?" });
    } catch (error) {
      root.append(problem(error));
    }
  };
  root.append(state("Nothing is remembered yet.",
    h("p", {}, "Import your own history in the memory view, or try it out with a made-up one."),
    h("div", { class: "row" },
      h("button", { type: "button", class: "primary", onclick: load }, "Load the sample history"),
      link({ view: "memory" }, {}, "Import a history"))));
}

function chooser(label, value, options, change) {
  const id = `choose-${label.toLowerCase().replace(/\W/g, "-")}`;
  const select = h("select", { id, onchange: (event) => change(event.target.value) },
    options.map(([given, shown]) => h("option", { value: given, ...(given === value ? { selected: true } : {}) }, shown)));
  return h("div", {}, h("label", { for: id }, label), select);
}

function form(set, view, projects, sessions) {
  const asked = soon(() => view.ask(), WAIT);
  const changed = (name, work) => (value) => {
    set[name] = value;
    work();
  };
  const box = h("input", {
    type: "search", id: "query", name: "q", value: set.q, autocomplete: "off", autofocus: true, maxlength: 4000,
    oninput: (event) => { set.q = event.target.value; asked(); },
  });
  const slider = (name) => {
    const output = h("output", { for: `weight-${name}` }, number(set[name], 1));
    const move = (event) => {
      set[name] = Number(event.target.value);
      output.textContent = number(set[name], 1);
      if (set.mode !== "fixed") mode("fixed");
      view.refuse();
    };
    return h("div", { class: name }, h("label", { for: `weight-${name}`, class: "strand-head" }, `${NAMES[name]} weight `, output),
      h("input", { type: "range", id: `weight-${name}`, min: 0, max: 5, step: 0.1, value: set[name], oninput: move }));
  };
  const modes = h("div", { class: "row", role: "group", "aria-label": "Weights" });
  const mode = (value) => {
    set.mode = value;
    modes.replaceChildren(...[["auto", "Automatic weights"], ["fixed", "Set by hand"]].map(([name, label]) =>
      h("button", { type: "button", "aria-pressed": String(set.mode === name), onclick: () => { mode(name); view.refuse(); } }, label)));
  };
  mode(set.mode);
  const inProject = (session) => !set.project || session.project === set.project;
  const sessionOptions = () => [["", "All"], ...sessions.filter(inProject).map((one) => [String(one.id), one.title ?? one.name])];
  const sessionPlace = h("div", {});
  const chooseSession = () => sessionPlace.replaceChildren(...chooser("Session", set.session, sessionOptions(), changed("session", () => view.ask())).childNodes);
  chooseSession();
  const keep = async () => {
    try {
      await send("PATCH", "/settings", { weights: set.mode, method: set.method, semanticWeight: set.semantic, keywordWeight: set.keyword, semanticLimit: set.limit });
      kept.replaceChildren("Kept: these settings are in force for everybody now.");
    } catch (error) {
      kept.replaceChildren(problem(error));
    }
  };
  const kept = h("p", { class: "soft", role: "status" });
  const limit = h("input", { type: "number", id: "limit", min: 1, max: 50, value: set.limit, oninput: (event) => {
    const value = Number(event.target.value);
    if (value >= 1 && value <= 50) { set.limit = value; view.refuse(); }
  } });
  return h("form", { class: "ask", role: "search", onsubmit: (event) => { event.preventDefault(); view.ask(); } },
    h("label", { for: "query" }, "Search your memory"), box,
    h("div", { class: "scope" },
      chooser("Project", set.project, [["", "All"], ...projects.map((one) => [one.name, one.name])], (value) => {
        set.project = value;
        set.session = "";
        chooseSession();
        view.ask();
      }),
      sessionPlace,
      chooser("Method", set.method, Object.entries(METHODS), changed("method", () => view.refuse())),
      h("div", {}, h("label", { for: "limit" }, "Hits"), limit)),
    h("div", { class: "sliders" }, slider("semantic"), slider("keyword")),
    h("div", { class: "row" }, modes, h("button", { type: "button", onclick: keep }, "Keep these settings"), kept));
}

/** What is shown of a query; asks the server for windows, and fuses them anew as often as something is set. */
class View {
  constructor(set, out) {
    this.set = set;
    this.out = out;
    this.windows = null;
    this.judged = new Map();
    this.running = null;
    this.watch = new ResizeObserver(() => this.lines());
  }

  end() {
    this.running?.abort();
    this.watch.disconnect();
  }

  remember() {
    const { q, project, session, mode, method, semantic, keyword, limit } = this.set;
    note({ view: "recall", q, project, session, mode, method, semantic, keyword, limit });
  }

  async ask() {
    this.running?.abort();
    this.remember();
    if (!this.set.q.trim()) {
      this.windows = null;
      this.out.replaceChildren(state("Ask for anything that was said."));
      return;
    }
    const running = (this.running = new AbortController());
    const { q, project, session, limit } = this.set;
    const where = session ? { sessionIds: [Number(session)] } : project ? { project } : {};
    this.out.setAttribute("aria-busy", "true");
    try {
      const answer = await get("/recall/windows", {
        method: "POST", signal: running.signal, json: { query: q, limit, zone: ZONE, ...where },
      });
      if (this.running !== running) return;
      this.windows = answer;
      this.episodes = new Map(answer.candidates.map((one) => [one.id, one]));
      this.judged.clear();
      this.refuse();
    } catch (error) {
      if (error.name !== "AbortError" && this.running === running) this.out.replaceChildren(problem(error), h("button", { type: "button", onclick: () => this.ask() }, "Try again"));
    } finally {
      if (this.running === running) this.out.removeAttribute("aria-busy");
    }
  }

  refuse() {
    this.remember();
    if (!this.windows) return;
    performance.mark("refuse");
    const hits = fused(this.windows, this.set).filter((hit) => this.episodes.has(hit.id));
    this.draw(hits);
    performance.measure("refused", "refuse");
    say(`${hits.length} hits`);
  }

  draw(hits) {
    const { windows } = this;
    const failed = Object.entries(windows.degraded).map(([part, why]) => h("p", { class: "problem" }, `${NAMES[part] ?? part} search did not work: ${why}`));
    if (!windows.candidates.length) {
      this.out.replaceChildren(...failed, this.analysis(hits), state("Nothing fits. Try other words, or a wider scope."));
      return;
    }
    const place = new Map(hits.map((hit, index) => [hit.id, index]));
    this.columns = h("div", { class: "columns" },
      this.drawing = svg("svg", { class: "lines", "aria-hidden": "true" }),
      this.middle(hits), this.side("semantic", place), this.side("keyword", place));
    this.out.replaceChildren(...failed, this.analysis(hits), this.columns, this.missing());
    this.watch.disconnect();
    this.watch.observe(this.columns);
    this.lines();
  }

  analysis(hits) {
    const { explanation } = this.windows;
    const weights = Object.entries(this.weights(hits)).map(([name, value]) => `${NAMES[name].toLowerCase()} ${number(value, 2)}`).join(", ");
    const told = [
      ["Kind", explanation.kind], ["Terms", explanation.terms.join(", ") || "none"],
      explanation.leftOut.length ? ["Not in the index", explanation.leftOut.join(", ")] : null,
      weights ? ["Weights", weights] : null,
      explanation.k ? ["k", number(explanation.k)] : null,
      ["Time", `${number(Object.values(explanation.milliseconds).reduce((a, b) => a + b, 0), 1)} ms`],
      ...Object.entries(explanation.milliseconds).map(([stage, took]) => [stage, `${number(took, 1)} ms`]),
    ].filter(Boolean);
    return h("dl", { class: "analysis", "aria-label": "How the query was read" }, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  weights(hits) {
    const found = {};
    for (const hit of hits) for (const one of hit.contributions) found[one.ranking] = one.weight;
    return found;
  }

  middle(hits) {
    const most = Math.max(...hits.map((hit) => hit.score), 1e-12);
    return h("section", { class: "fused", "aria-labelledby": "fused-head" },
      h("h2", { class: "strand-head", id: "fused-head" }, "Fused"),
      h("ol", {}, hits.map((hit, index) => this.hit(hit, index, most))));
  }

  hit(hit, index, most) {
    const episode = this.episodes.get(hit.id);
    const more = h("div", {});
    const near = () => this.columns.querySelectorAll(`[data-line="${hit.id}"]`);
    const light = (on) => near().forEach((line) => line.classList.toggle("near", on));
    const ranks = hit.contributions.map((one) => `${NAMES[one.ranking].toLowerCase()} ${one.ranking === "time" ? "" : `#${one.rank}`}`).join(" · ");
    return h("li", { class: "card hit", "data-hit": hit.id, onpointerenter: () => light(true), onpointerleave: () => light(false), onfocusin: () => light(true), onfocusout: () => light(false) },
      h("header", {}, h("span", { class: "place" }, `${index + 1}`), h("strong", {}, h("bdi", {}, episode.title ?? episode.session)),
        h("span", { class: "soft" }, episode.role, ", ", moment(episode.time)), h("span", { class: "soft" }, ranks)),
      bar(hit, most),
      h("p", { class: "text" }, marked(episode.text, episode.marks)),
      h("details", {}, h("summary", {}, `Score ${number(hit.score, 4)}`), h("div", { class: "wide" }, table(hit))),
      h("div", { class: "row" },
        this.thumb(hit.id, true), this.thumb(hit.id, false),
        h("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: (event) => this.around(event.target, more, hit.id) }, "What stood around it"),
        link({ view: "memory", session: episode.sessionId, episode: hit.id }, {}, "Open the conversation")),
      more);
  }

  thumb(id, useful) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: async () => {
      try {
        const before = this.judged.get(id);
        if (before) await send("DELETE", `/feedback/${before.id}`);
        this.judged.delete(id);
        if (before?.useful !== useful) {
          const { q, project, session } = this.set;
          const where = session ? { sessionId: Number(session) } : project ? { project } : {};
          this.judged.set(id, await send("POST", "/feedback", { query: q, episode: id, useful, ...where }));
          say(useful ? "Noted as useful" : "Noted as not useful");
        } else say("Taken back");
        for (const one of button.parentElement.querySelectorAll("[data-useful]")) one.setAttribute("aria-pressed", String(this.judged.get(id)?.useful === (one.dataset.useful === "true")));
      } catch (error) {
        button.parentElement.append(problem(error));
      }
    }, "data-useful": String(useful) }, useful ? "Useful" : "Not useful");
    return button;
  }

  async around(button, more, id) {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return more.replaceChildren();
    try {
      const found = await get(at(`/episodes/${id}/around`, { count: 2 }));
      more.replaceChildren(h("div", { class: "around" }, found.map((one) =>
        h("div", { "aria-current": one.id === id ? "true" : null }, h("p", { class: "soft" }, one.role, ", ", moment(one.time)), h("p", { class: "text" }, one.text.slice(0, 2000), one.text.length > 2000 ? "…" : "")))));
    } catch (error) {
      more.replaceChildren(problem(error));
    }
  }

  side(name, place) {
    const ranking = this.windows.rankings[name].slice(0, Math.max(20, this.set.limit)).filter(([id]) => this.episodes.has(id));
    return h("section", { class: `${name} side`, "aria-labelledby": `${name}-head` },
      h("h2", { class: "strand-head", id: `${name}-head` }, NAMES[name]),
      ranking.length ? h("ol", {}, ranking.map(([id, score], index) => this.item(name, id, score, index + 1, place.get(id)))) : h("p", { class: "soft" }, name === "keyword" ? "No word of the query is in scope." : "No vectors in scope."));
  }

  item(name, id, score, rank, at_) {
    const episode = this.episodes.get(id);
    const told = h("p", { class: "soft" });
    const out = at_ === undefined;
    const why = out ? h("button", { type: "button", class: "quiet", onclick: () => this.whyNot(id, told) }, "Why not this one?") : null;
    return h("li", { "data-item": `${name}-${id}`, "data-out": String(out) },
      h("span", { class: "rank" }, `#${rank}`),
      h("span", { class: "first" }, episode.text.slice(0, 200)),
      h("span", { class: "raw", title: "raw score" }, number(score, 3)),
      out ? null : h("span", { class: "unseen" }, `fused place ${at_ + 1}`), why, told);
  }

  /** Asks by its id for one that neither column shows. */
  missing() {
    const field = h("input", { type: "number", id: "missing", min: 1, required: true });
    const told = h("p", { role: "status" });
    return h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); this.whyNot(Number(field.value), told); } },
      h("label", { for: "missing" }, "Why not the episode with the number"), field, h("button", {}, "Ask"), told);
  }

  async whyNot(id, told) {
    try {
      const { q, project, session, limit } = this.set;
      const where = session ? { sessionIds: [Number(session)] } : project ? { project } : {};
      const { sentence } = await send("POST", "/recall/why-not", { query: q, episode: id, limit, zone: ZONE, ...where });
      told.replaceChildren(`Episode ${id}: ${sentence}.`);
      say(sentence);
    } catch (error) {
      told.replaceChildren(problem(error));
    }
  }

  lines() {
    const box = this.columns.getBoundingClientRect();
    const paths = [];
    for (const name of ["semantic", "keyword"]) {
      for (const item of this.columns.querySelectorAll(`.${name}.side [data-item]`)) {
        const id = item.dataset.item.split("-")[1];
        const hit = this.columns.querySelector(`[data-hit="${id}"]`);
        if (!hit) continue;
        const from = item.getBoundingClientRect();
        const to = hit.getBoundingClientRect();
        const [x1, x2] = name === "semantic" ? [from.right - box.left, to.left - box.left] : [from.left - box.left, to.right - box.left];
        const [y1, y2] = [from.top + from.height / 2 - box.top, Math.min(to.top + 28, to.bottom) - box.top];
        const bend = (x2 - x1) / 2;
        paths.push(svg("path", { class: name, "data-line": id, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }));
      }
    }
    this.drawing.replaceChildren(...paths);
  }
}

function bar(hit, most) {
  const parts = hit.contributions.filter((one) => one.contribution > 0);
  const said = parts.map((one) => `${NAMES[one.ranking].toLowerCase()} ${number(one.contribution, 4)}`).join(", ");
  return h("div", { class: "bar", role: "img", "aria-label": `Contributions: ${said || "none"}` }, parts.map((one) => {
    const part = h("span", { class: one.ranking, title: `${NAMES[one.ranking]} ${number(one.contribution, 4)}` });
    part.style.setProperty("--part", (100 * one.contribution) / most);
    return part;
  }));
}

function table(hit) {
  const head = ["", "Rank", "Raw", "Normalised", "Weight", "Contribution"];
  return h("table", {}, h("caption", { class: "unseen" }, "What each ranking gave"),
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, hit.contributions.map((one) => h("tr", {}, h("th", { scope: "row" }, NAMES[one.ranking]),
      h("td", {}, `${one.rank}`), h("td", {}, one.raw === null ? "–" : number(one.raw, 4)), h("td", {}, number(one.value, 4)), h("td", {}, number(one.weight, 3)), h("td", {}, number(one.contribution, 4))))));
}
