import { state } from "./dom.js";
export async function memory(root) { root.append(state("…")); }
