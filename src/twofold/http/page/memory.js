// Memory: projects, sessions, weeks; one session as a conversation; entities; histories in and out.

import { go, link, note } from "./app.js";
import { all, ask, at, download, get, send, upload } from "./api.js";
import { Conversation } from "./conversation.js";
import { Undo, confirm } from "./undo.js";
import { h, moment, number, problem, say, state } from "./dom.js";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const WEEK = 7 * 86400000;

/** The view; `place` is what the address says. */
export async function memory(root, place) {
  const undo = new Undo();
  const [projects, sessions, weeks] = await Promise.all([
    all("/projects", {}, 5000), all("/sessions", { project: place.project }, 5000),
    get(at("/timeline", { project: place.project, zone: ZONE })),
  ]);
  const right = h("div", { class: "ask" });
  root.append(
    timeline(weeks, place),
    h("div", { class: place.session ? "two open" : "two" }, h("div", { class: "ask" }, chooser(projects, place), list(sessions, place), take()), right),
    undo.bar,
  );
  let open = null;
  const show = async () => {
    open?.end();
    right.replaceChildren(state("Loading…"));
    if (place.session) open = await session(right, place, projects, undo);
    else await entities(right, place);
  };
  try {
    await show();
  } catch (error) {
    right.replaceChildren(problem(error), h("button", { type: "button", onclick: show }, "Try again"));
  }
  return () => open?.end();
}

/** The address without what is of another session, project or week. */
const keep = (place, changes) => ({ view: "memory", project: place.project, week: place.week, ...changes });

function timeline(weeks, place) {
  if (!weeks.length) return null;
  const counts = new Map(weeks.map((week) => [week.start, week.episodes]));
  const first = Date.parse(weeks[0].start);
  const last = Date.parse(weeks[weeks.length - 1].start);
  const most = Math.max(...counts.values());
  const bars = [];
  for (let time = first; time <= last && bars.length < 1000; time += WEEK) {
    const start = new Date(time).toISOString().slice(0, 10);
    const count = counts.get(start) ?? 0;
    const chosen = place.week === start;
    const bar = h("button", {
      type: "button", "aria-pressed": String(chosen), title: `Week of ${start}: ${count}`,
      "aria-label": `Week of ${start}, ${number(count)} messages`,
      onclick: () => go(keep(place, { week: chosen ? null : start })),
    });
    bar.style.setProperty("--part", (100 * count) / most);
    bars.push(h("li", {}, bar));
  }
  return h("section", { "aria-labelledby": "weeks-head" },
    h("div", { class: "row" }, h("h2", { id: "weeks-head" }, "Messages a week"),
      h("span", { class: "soft" }, `${weeks[0].start} to ${weeks[weeks.length - 1].start}, at most ${number(most)}`),
      place.week ? link(keep(place, { week: null }), {}, "Show all weeks") : null),
    h("ol", { class: "weeks", tabindex: "0", "aria-label": "Weeks" }, bars));
}

function chooser(projects, place) {
  const options = [["", "All projects"], ...projects.map((one) => [one.name, `${one.name} (${number(one.episodes)})`])];
  return h("div", { class: "list" }, h("label", { for: "project" }, "Project"),
    h("select", { id: "project", onchange: (event) => go({ view: "memory", project: event.target.value }) },
      options.map(([value, shown]) => h("option", { value, ...(value === (place.project ?? "") ? { selected: true } : {}) }, shown))));
}

function within(session, week) {
  if (!week) return true;
  const start = Date.parse(week) - 86400000;
  return session.first && Date.parse(session.first) < start + WEEK + 2 * 86400000 && Date.parse(session.last) >= start;
}

function list(sessions, place) {
  const found = sessions.filter((one) => within(one, place.week));
  let shown = 100;
  const items = h("ul", { class: "list" });
  const more = h("button", { type: "button", onclick: () => { shown += 200; fill(); } }, "Show more");
  const fill = () => {
    items.replaceChildren(...found.slice(0, shown).map((one) => h("li", {},
      link(keep(place, { session: one.id }), { "aria-current": String(one.id) === place.session ? "true" : null },
        h("strong", {}, h("bdi", {}, one.title ?? one.name)),
        h("span", { class: "soft" }, one.project ? [h("bdi", {}, one.project), ", "] : "", `${number(one.episodes)} messages`, one.last ? [", ", moment(one.last)] : "")))));
    more.hidden = shown >= found.length;
  };
  fill();
  return h("section", { class: "list", "aria-labelledby": "sessions-head" },
    h("h2", { id: "sessions-head" }, `Sessions (${number(found.length)})`),
    found.length ? [items, more] : h("p", { class: "soft" }, place.week ? "Nothing was said in this week." : "No session is here yet."));
}

async function session(right, place, projects, undo) {
  const known = await get(`/sessions/${place.session}`);
  const messages = await all("/episodes", { sessionId: place.session });
  const told = h("p", { role: "status" });
  const again = () => go(keep(place, { session: place.session }));
  const talk = new Conversation(messages, {
    async edit(id, content) {
      return (await send("PATCH", `/episodes/${id}`, { content })).content;
    },
    async forget(one) {
      const sure = await confirm("Forget this message?", "It is deleted from the store with its index entries at once. Until you leave this page you can undo it.");
      if (!sure) return false;
      const kept = await (await ask(`/export?episodeId=${one.id}`)).text();
      await ask(`/episodes/${one.id}`, { method: "DELETE" });
      undo.offer("One message was forgotten", kept, again);
      return true;
    },
  }, Number(place.episode));
  const forgetAll = async () => {
    const sure = await confirm(`Forget “${known.title ?? known.name}”?`,
      `Its ${number(known.episodes)} messages are deleted at once, with their index entries and what was said of them. Until you leave this page you can undo it.`);
    if (!sure) return;
    try {
      const kept = await (await ask(`/export?sessionId=${known.id}`)).text();
      await ask(`/sessions/${known.id}`, { method: "DELETE" });
      right.replaceChildren(state("The session was forgotten."));
      undo.offer(`${number(known.episodes)} messages were forgotten`, kept, () => go(keep(place, {})));
    } catch (error) {
      told.replaceChildren(problem(error));
    }
  };
  const move = async (event) => {
    try {
      await send("PATCH", `/sessions/${known.id}`, { project: event.target.value });
      say("Moved");
      again();
    } catch (error) {
      told.replaceChildren(problem(error));
    }
  };
  const name = (known.title ?? known.name).slice(0, 60);
  const saves = [["jsonl", "JSONL", `${name}.jsonl`], ["markdown", "Markdown", `${name}.md`], ["openai", "OpenAI messages", `${name}.jsonl`]];
  right.replaceChildren(
    h("h2", {}, h("bdi", {}, known.title ?? known.name)),
    h("div", { class: "row" },
      h("label", { for: "move" }, "In project"),
      h("select", { id: "move", onchange: move }, [["", "none"], ...projects.map((one) => [one.name, one.name])].map(([value, shown]) =>
        h("option", { value, ...(value === (known.project ?? "") ? { selected: true } : {}) }, shown))),
      saves.map(([kind, label, file]) => h("button", { type: "button", class: "quiet", onclick: () => download(at("/export", { sessionId: known.id, format: kind }), file).catch((error) => told.replaceChildren(problem(error))) }, `Save as ${label}`)),
      h("button", { type: "button", class: "danger", onclick: forgetAll }, "Forget the session")),
    told, talk.element);
  talk.start();
  return talk;
}

async function entities(right, place) {
  const found = await all("/entities", { project: place.project }, 2000);
  const rows = found.map((one) => {
    const more = h("div", {});
    const open = h("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: async () => {
      const isOpen = open.getAttribute("aria-expanded") === "true";
      open.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) return more.replaceChildren();
      try {
        const page = await get(at(`/entities/${one.id}/episodes`, { limit: 20 }));
        more.replaceChildren(h("ul", { class: "around" }, page.items.map((episode) => h("li", {},
          link({ view: "memory", session: episode.sessionId, episode: episode.id }, {}, moment(episode.time)), " ", h("span", { class: "text" }, episode.content.slice(0, 200))))));
      } catch (error) {
        more.replaceChildren(problem(error));
      }
    } }, `${number(one.mentions)} mentions`);
    return h("li", { class: "card" }, h("div", { class: "row" }, h("strong", {}, h("bdi", {}, one.name)), h("span", { class: "soft" }, one.type), open),
      one.description ? h("p", { class: "text" }, one.description) : null, more);
  });
  right.replaceChildren(h("h2", {}, "Entities"), rows.length ? h("ul", { class: "list" }, rows)
    : state("Choose a session on the left to read it. People, places and things that are described would stand here: add them with twofold entities add, or have a chat model propose them."));
}

function take() {
  const told = h("div", { role: "status" });
  const files = h("input", { type: "file", "aria-label": "Choose a file", onchange: () => bring(files.files) });
  const bring = async (list) => {
    for (const file of list) {
      const bar = h("progress", { max: 1, value: 0, "aria-label": `Uploading ${file.name}` });
      const line = h("p", { class: "soft" }, `Sending ${file.name} …`);
      told.replaceChildren(line, bar);
      try {
        const done = await upload("/import", file, (part) => {
          bar.value = part;
          line.textContent = part < 1 ? `Sending ${file.name}: ${number(100 * part)} %` : `Reading ${file.name} …`;
          if (part >= 1) bar.removeAttribute("value");
        }, (stage, messages) => {
          line.textContent = `${stage[0].toUpperCase()}${stage.slice(1)}: ${number(messages)} messages`;
        });
        told.replaceChildren(report(file.name, done));
        say(`${number(done.added)} messages were added`);
      } catch (error) {
        told.replaceChildren(problem(error));
      }
    }
  };
  const drop = h("div", { class: "drop", ondragover: (event) => { event.preventDefault(); drop.dataset.over = "true"; },
    ondragleave: () => delete drop.dataset.over,
    ondrop: (event) => { event.preventDefault(); delete drop.dataset.over; bring(event.dataTransfer.files); } },
    h("p", {}, "Drop an export of ChatGPT or Claude, a log of Claude Code, Codex or Gemini, Markdown or JSONL here, or choose a file."),
    files, told);
  return h("section", { class: "list", "aria-labelledby": "take-head" }, h("h2", { id: "take-head" }, "Bring a history in"), drop,
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => download("/export", "twofold.jsonl").catch((error) => told.replaceChildren(problem(error))) }, "Save everything")));
}

function report(name, done) {
  const { losses } = done;
  const kinds = [["skipped", "Not taken"], ["placeholders", "Kept by name alone"], ["unknown", "Of unknown types"], ["changed", "Taken otherwise"]];
  return h("div", { class: "card" },
    h("h3", {}, h("bdi", {}, name)),
    h("p", {}, `Added ${number(done.added)} messages in ${number(done.sessions)} sessions; ${number(done.updated)} were renewed, ${number(done.duplicates)} were there already.`),
    h("p", { class: "soft" }, `Read ${number(losses.messages)} messages of ${number(losses.conversations)} conversations.`),
    kinds.filter(([kind]) => Object.keys(losses[kind]).length).map(([kind, title]) => [h("h4", {}, title), h("ul", {}, Object.entries(losses[kind]).map(([why, times]) => h("li", { class: "soft" }, `${number(times)} × ${why}`)))]),
    h("button", { type: "button", onclick: () => { note({ session: null, week: null }); location.reload(); } }, "Show it"));
}
