// Fusion in the browser: the same rules and numbers as fusion.py, which says where the formulas come from.

const DEVIATIONS = 3;

class InvalidInput extends Error {}

const isFinite_ = (value) => typeof value === "number" && Number.isFinite(value);
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** The correctly rounded sum of floats (Shewchuk 1997). */
export function fsum(values) {
  const partials = [];
  for (let x of values) {
    let kept = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) partials[kept++] = low;
      x = high;
    }
    partials.length = kept;
    partials.push(x);
  }
  let sum = 0;
  let place = partials.length;
  if (place === 0) return 0;
  sum = partials[--place];
  let low = 0;
  while (place > 0) {
    const x = sum;
    const y = partials[--place];
    sum = x + y;
    low = y - (sum - x);
    if (low) break;
  }
  if (place > 0 && ((low < 0 && partials[place - 1] < 0) || (low > 0 && partials[place - 1] > 0))) {
    const y = low * 2;
    const x = sum + y;
    if (y === x - sum) sum = x;
  }
  return sum;
}

function entries(rankings) {
  return Array.isArray(rankings) ? rankings.map((ranking, place) => [String(place), ranking]) : Object.entries(rankings);
}

function numbers(argument, given, named, standard, minimum = -Infinity) {
  if (given === undefined || given === null) {
    if (standard === undefined) throw new InvalidInput(`${argument} are missing; give one number for each ranking`);
    return named.map(() => standard);
  }
  let listed = given;
  if (!Array.isArray(given)) {
    if (Object.keys(given).sort().join() !== named.map(([name]) => name).sort().join())
      throw new InvalidInput(`${argument} name other rankings than there are`);
    listed = named.map(([name]) => given[name]);
  }
  if (listed.length !== named.length) throw new InvalidInput(`${argument} has ${listed.length} numbers for ${named.length} rankings`);
  for (const value of listed)
    if (!isFinite_(value) || value < minimum) throw new InvalidInput(`${argument} holds ${value}; each must be a finite number`);
  if (minimum === 0 && !Number.isFinite(listed.reduce((a, b) => a + b, 0))) throw new InvalidInput(`${argument} add up to infinity`);
  return listed;
}

function nextUp(value) {
  const bits = new BigInt64Array(new Float64Array([value]).buffer);
  bits[0] += 1n;
  return new Float64Array(bits.buffer)[0];
}

function shares(weights) {
  let total = fsum(weights);
  while (total > 0 && fsum(weights.map((weight) => weight / total)) > 1) total = nextUp(total);
  return weights.map((weight) => (weight ? weight / total : 0));
}

function rankedIds(ranking) {
  const isPairs = ranking.length > 0 && Array.isArray(ranking[0]);
  const ids = [];
  const raws = [];
  const seen = new Set();
  for (const one of ranking) {
    const id = isPairs ? one[0] : one;
    if (seen.has(id)) continue;
    seen.add(id);
    ids.push(id);
    raws.push(isPairs ? one[1] : null);
  }
  return [ids, isPairs ? raws : null];
}

function rankedPairs(name, ranking) {
  for (const [id, score] of ranking)
    if (!isFinite_(score)) throw new InvalidInput(`rankings: ${name} scores ${id} with ${score}; scores must be finite numbers`);
  const sorted = [...ranking].sort((a, b) => b[1] - a[1] || order(a[0], b[0]));
  const best = new Map();
  for (const [id, score] of sorted) if (!best.has(id)) best.set(id, score);
  return [...best];
}

function scaled(scores, other = 0) {
  const largest = Math.max(...scores.map(Math.abs), Math.abs(other));
  if (largest === 0 || (largest > 1e-100 && largest < 1e100)) return [scores, other];
  const half = -Math.floor(Math.log2(largest) / 2);
  const times = (value) => value * 2 ** half * 2 ** half;
  return [scores.map(times), times(other)];
}

function minMax(raws) {
  const [scores] = scaled(raws);
  const low = scores[scores.length - 1];
  const span = scores[0] - low;
  return scores.map((score) => (span > 0 ? (score - low) / span : 1));
}

function threeDeviations(raws) {
  const [scores] = scaled(raws);
  if (scores[0] === scores[scores.length - 1]) return scores.map(() => 0.5);
  const mean = fsum(scores) / scores.length;
  const half = DEVIATIONS * Math.sqrt(fsum(scores.map((score) => (score - mean) ** 2)) / (scores.length - 1));
  if (half === 0) return scores.map(() => 0.5);
  return scores.map((score) => Math.min(1, Math.max(0, (score - (mean - half)) / (2 * half))));
}

function aboveFloor(raws, floor) {
  const [scores, low] = scaled(raws, floor);
  const span = scores[0] - low;
  return scores.map((score) => (span > 0 ? Math.max(0, (score - low) / span) : 0));
}

function combined(parts, limit) {
  if (limit !== undefined && limit !== null && (!Number.isInteger(limit) || limit < 0))
    throw new InvalidInput(`limit is ${limit}; give a whole number from 0`);
  const hits = new Map();
  for (const part of parts) {
    part.ids.forEach((id, place) => {
      const hit = hits.get(id) ?? { id, best: Infinity, contributions: [] };
      hit.best = Math.min(hit.best, place);
      hit.contributions.push({
        ranking: part.name,
        rank: place + 1,
        raw: part.raws ? part.raws[place] : null,
        value: part.values[place],
        weight: part.weight,
        contribution: part.weight * part.values[place],
      });
      hits.set(id, hit);
    });
  }
  const found = [...hits.values()].map((hit) => ({ ...hit, score: fsum(hit.contributions.map((one) => one.contribution)) }));
  found.sort((a, b) => b.score - a.score || a.best - b.best || order(a.id, b.id));
  return found.slice(0, limit ?? found.length);
}

export function rrf(rankings, { weights, k = 60, normalize = false, limit } = {}) {
  const named = entries(rankings);
  const weighted = numbers("weights", weights, named, 1, 0);
  if (!isFinite_(k) || k < 0) throw new InvalidInput(`k is ${k}; give a finite number from 0`);
  const given = normalize ? shares(weighted) : weighted;
  const top = normalize ? k + 1 : 1;
  const parts = [];
  named.forEach(([name, ranking], place) => {
    if (weighted[place] === 0) return;
    const [ids, raws] = rankedIds(ranking);
    parts.push({ name, weight: given[place], ids, raws, values: ids.map((_, rank) => top / (k + rank + 1)) });
  });
  return combined(parts, limit);
}

function byScore(rankings, weights, limit, normaliser) {
  const named = entries(rankings);
  const weighted = numbers("weights", weights, named, named.length ? 1 / named.length : 1, 0);
  const parts = [];
  named.forEach(([name, ranking], place) => {
    const pairs = weighted[place] > 0 ? rankedPairs(name, ranking) : [];
    if (!pairs.length) return;
    const raws = pairs.map(([, score]) => score);
    parts.push({ name, weight: weighted[place], ids: pairs.map(([id]) => id), raws, values: normaliser(name, raws) });
  });
  return combined(parts, limit);
}

export const rsf = (rankings, { weights, limit } = {}) => byScore(rankings, weights, limit, (_, raws) => minMax(raws));
export const dbsf = (rankings, { weights, limit } = {}) => byScore(rankings, weights, limit, (_, raws) => threeDeviations(raws));

export function convex(rankings, { floors, weights, limit } = {}) {
  const named = entries(rankings);
  const listed = numbers("floors", floors, named);
  const floorOf = new Map(named.map(([name], place) => [name, listed[place]]));
  return byScore(rankings, weights, limit, (name, raws) => aboveFloor(raws, floorOf.get(name)));
}

export const METHODS = { rrf, rsf, dbsf, convex };

/**
 * The hits of both windows under what a person has set: `mode` auto or fixed, a method or "auto", two weights.
 * Automatic weights are the server's; weights that are set add up to 1 but in rrf, as on the server.
 */
export function fused(windows, { mode, method, keyword, semantic, limit }) {
  const meant = method === "auto" ? (mode === "auto" ? windows.method : "rrf") : method;
  if (mode === "auto") {
    const { weights, k, floors, completed } = windows.auto[meant];
    const more = meant === "rrf" ? { k } : meant === "convex" ? { floors } : {};
    return METHODS[meant](completed ?? windows.rankings, { weights, limit, ...more });
  }
  const total = keyword + semantic;
  const share = meant === "rrf" || total === 0 ? 1 : total;
  const weights = { keyword: keyword / share, semantic: semantic / share };
  if (meant === "convex") {
    const { completed, floors } = windows.fixed;
    const asked = keyword > 0 && semantic > 0 ? completed : windows.rankings;
    return convex(asked, { weights, floors: Object.fromEntries(Object.keys(asked).map((name) => [name, floors[name]])), limit });
  }
  return METHODS[meant](windows.rankings, { weights, limit });
}
