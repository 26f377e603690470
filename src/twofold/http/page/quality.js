import { state } from "./dom.js";
export async function quality(root) { root.append(state("…")); }
