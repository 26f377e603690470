// Quality: the last runs of eval and tune as plots, what the store holds, and whether its parts work.

import { get } from "./api.js";
import { curve, ranges } from "./plots.js";
import { h, moment, number, problem, state } from "./dom.js";

/** The view. */
export async function quality(root) {
  const [health, status, runs] = await Promise.allSettled([get("/health"), get("/status"), get("/runs")]);
  root.append(h("div", { class: "cards" }, parts(health), size(status)), evaluation(runs), tuning(runs));
}

function card(title, settled, show) {
  return h("section", { class: "card list" }, h("h2", {}, title), settled.status === "fulfilled" ? show(settled.value) : problem(settled.reason));
}

const parts = (settled) => card("Parts", settled, ({ parts: found }) =>
  h("ul", { class: "list" }, Object.entries(found).map(([name, part]) =>
    h("li", { class: "part", "data-state": part.state }, h("div", {}, h("strong", {}, name), ` ${part.state}`, part.detail ? h("p", { class: "soft" }, part.detail) : null)))));

const size = (settled) => card("Store", settled, (found) => {
  const rows = [["Messages", number(found.episodes)], ["Sessions", number(found.sessions)], ["Projects", number(found.projects)],
    ["On disk", `${number(found.bytes / 1e6, 1)} MB`], ["Vectors", number(found.vectors)], ["Waiting for a vector", number(found.waiting)], ["Model", found.current ?? found.model ?? "none"]];
  return [h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))),
    found.waiting ? h("p", {}, "Make what is missing with: ", h("code", {}, "twofold embed")) : null];
});

const last = (settled, kind) => (settled.status === "fulfilled" ? settled.value.filter((run) => run.kind === kind)[0] : undefined);

function evaluation(runs) {
  const run = last(runs, "eval");
  const head = h("h2", {}, "Evaluation");
  if (runs.status === "rejected") return h("section", { class: "card list" }, head, problem(runs.reason));
  if (!run) return h("section", { class: "card list" }, head, state("No run yet. Measure the methods on a judged set with:", h("code", {}, "twofold eval DIR")));
  return h("section", { class: "card list" }, head, h("p", { class: "soft" }, moment(run.time)), run.report.sets.map((set) => {
    const rows = set.runs.map((one) => ({ name: one.name, value: one.value, low: one.low, high: one.high, ours: one.name === "default" }));
    return h("figure", { class: "list" }, h("figcaption", {}, h("strong", {}, set.name), ` ${set.measure}, ${number(set.queries)} queries, 95 % intervals`), ranges(rows), numbers(rows));
  }));
}

function numbers(rows) {
  return h("details", {}, h("summary", {}, "As a table"), h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Method", "Mean", "From", "To"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), [row.value, row.low, row.high].map((value) => h("td", {}, number(value, 4)))))))));
}

function tuning(runs) {
  const run = last(runs, "tune");
  const head = h("h2", {}, "Tuning");
  if (runs.status === "rejected") return null;
  if (!run) return h("section", { class: "card list" }, head, state("No run yet. Learn from your thumbs or judged queries with:", h("code", {}, "twofold tune --feedback")));
  const { curve: points, chosen, verdict } = run.report;
  return h("section", { class: "card list" }, head, h("p", { class: "soft" }, moment(run.time)), h("p", {}, verdict),
    points.length ? h("figure", { class: "list" }, h("figcaption", {}, "Mean by the weight of the keyword side; the point is the one chosen"), curve(points, chosen),
      h("details", {}, h("summary", {}, "As a table"), h("table", {}, h("tbody", {}, points.map(([weight, value]) => h("tr", {}, h("th", { scope: "row" }, number(weight, 2)), h("td", {}, number(value, 4)))))))) : null);
}
