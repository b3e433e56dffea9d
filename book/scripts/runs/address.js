/* The state of the page of runs as the part of its address after #, so that a view can be cited.

   Seeds are always written out: a run that is added later does not change a view. */

export const FILTERS = ["recipe", "encoding", "options", "seed"];
const KEYS = [...FILTERS, "sort", "by", "share", "run"];

const pair = (key, value) =>
  `${key}=${encodeURIComponent(value).replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%40", "@")}`;

/** {recipe: "mini", sort: "score", chosen: {"mini/roll": [0, 1]}, …} as "recipe=mini&sort=score&run=mini/roll:0.1". */
export const write = ({ chosen, ...words }) =>
  [
    ...Object.entries(words).flatMap(([key, value]) => (value ? [pair(key, value)] : [])),
    ...(Object.keys(chosen).length ? [] : ["run=none"]),
    ...Object.entries(chosen).map(([cell, seeds]) => pair("run", `${cell}:${seeds.join(".")}`)),
  ].join("&");

/** The inverse; null for an address of a place on the page. */
export const read = (hash) => {
  const given = new URLSearchParams(hash.replaceAll("+", "%2B"));
  if (![...given.keys()].some((key) => KEYS.includes(key))) return null;
  const words = KEYS.slice(0, -1).map((key) => [key, given.get(key) || ""]);
  const runs = given.getAll("run").map((run) => /^(.*):([\d.]+)$/.exec(run));
  const chosen = runs.filter(Boolean).map(([, cell, seeds]) => [cell, seeds.split(".").map(Number)]);
  return { ...Object.fromEntries(words), chosen: Object.fromEntries(chosen) };
};
