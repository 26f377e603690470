// Plots of few numbers, drawn here. Each stands beside a table that says the same.

import { number, svg } from "./dom.js";

const WIDTH = 640;

/** Means with their intervals, a row each: {name, value, low, high, ours}. */
export function ranges(rows) {
  const low = Math.min(...rows.map((row) => row.low));
  const high = Math.max(...rows.map((row) => row.high));
  const span = high - low || 1;
  const x = (value) => 110 + ((value - low) / span) * (WIDTH - 190);
  const height = rows.length * 24 + 24;
  return svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": rows.map((row) => `${row.name} ${number(row.value, 3)}`).join(", ") },
    rows.map((row, place) => {
      const y = place * 24 + 14;
      return [
        svg("text", { x: 0, y: y + 4 }, row.name),
        svg("line", { class: "range", x1: x(row.low), x2: x(row.high), y1: y, y2: y }),
        svg("circle", { class: row.ours ? "ours" : "dot", cx: x(row.value), cy: y, r: row.ours ? 6 : 4 }),
        svg("text", { x: WIDTH - 70, y: y + 4 }, number(row.value, 4)),
      ];
    }),
    svg("line", { class: "axis", x1: 110, x2: WIDTH - 80, y1: height - 18, y2: height - 18 }),
    svg("text", { x: 110, y: height - 4 }, number(low, 3)), svg("text", { x: WIDTH - 115, y: height - 4 }, number(high, 3)));
}

/** A curve of [x, y] points with the chosen x marked. */
export function curve(points, chosen) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = (value) => 60 + ((value - x0) / (x1 - x0 || 1)) * (WIDTH - 90);
  const y = (value) => 180 - ((value - y0) / (y1 - y0 || 1)) * 160;
  const at = points.find(([value]) => value === chosen);
  return svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} 220`, role: "img", "aria-label": `From ${number(y0, 3)} to ${number(y1, 3)}${at ? `; chosen is ${number(at[0], 2)} with ${number(at[1], 3)}` : ""}` },
    svg("line", { class: "axis", x1: 60, x2: WIDTH - 30, y1: 190, y2: 190 }), svg("line", { class: "axis", x1: 55, x2: 55, y1: 20, y2: 180 }),
    svg("text", { x: 0, y: 24 }, number(y1, 3)), svg("text", { x: 0, y: 184 }, number(y0, 3)),
    svg("text", { x: 56, y: 210 }, number(x0, 2)), svg("text", { x: WIDTH - 60, y: 210 }, number(x1, 2)),
    svg("path", { class: "curve", d: points.map(([a, b], place) => `${place ? "L" : "M"}${x(a)} ${y(b)}`).join("") }),
    at ? svg("circle", { class: "chosen", cx: x(at[0]), cy: y(at[1]), r: 6 }) : null);
}
