/* The state of the page of runs as the part of its address after #, so that a view can be cited.

   Seeds are always written out: a run that is added later does not change a view. */

export const FILTERS = ["recipe", "encoding", "options", "seed"];
const KEYS = [...FILTERS, "sort", "run"];

/** {recipe: "mini", sort: "score", chosen: {"mini/roll": [0, 1]}, …} as "recipe=mini&sort=score&run=mini/roll:0.1". */
export const write = ({ chosen, ...words }) => {
  const runs = Object.entries(chosen).map(([cell, seeds]) => ["run", `${cell}:${seeds.join(".")}`]);
  const pairs = [...Object.entries(words), ...(runs.length ? runs : [["run", "none"]])];
  return pairs.flatMap(([key, value]) => (value ? [`${key}=${encodeURI(value)}`] : [])).join("&");
};

/** The inverse; null for an address of a place on the page. Keys of older pages mean nothing. */
export const read = (hash) => {
  const given = new URLSearchParams(hash.replaceAll("+", "%2B"));
  if (!KEYS.some((key) => given.has(key))) return null;
  const words = KEYS.slice(0, -1).map((key) => [key, given.get(key) || ""]);
  const runs = given.getAll("run").map((run) => /^(.*):([\d.]+)$/.exec(run));
  const chosen = runs.filter(Boolean).map(([, cell, seeds]) => [cell, seeds.split(".").map(Number)]);
  return { ...Object.fromEntries(words), chosen: Object.fromEntries(chosen) };
};
