// What changed from one revision of an object to the next: fields, conditions, and who has changed them.

import { managersByPath } from "./yaml.js";

const IDENTITIES = ["type", "name", "key", "uid", "device", "ip", "containerPort"]; // fields that name the items of a list
const UNTOLD = [["metadata", "managedFields"], ["metadata", "resourceVersion"]];

const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const startsWith = (path, start) => start.every((step, i) => path[i] === step);

// Return the fields that differ: [{path, place, before, after}]; undefined stands for a field that is not there.
// `path` names items of lists by what they say of themselves, `place` by their index in the newer object.
export function fieldChanges(before, after) {
  const found = [];
  function walk(a, b, path, place) {
    if (same(a, b) || UNTOLD.some((each) => same(each, path))) return;
    if (isMap(a) && isMap(b)) {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) walk(a[key], b[key], [...path, key], [...place, key]);
      return;
    }
    const name = Array.isArray(a) && Array.isArray(b) ? identityOf([...a, ...b], a, b) : null;
    if (!name) {
      found.push({ path, place, before: a, after: b });
      return;
    }
    for (const each of new Set([...a, ...b].map((item) => item[name]))) {
      const index = b.findIndex((item) => item[name] === each);
      walk(a.find((item) => item[name] === each), b[index], [...path, `[${name}=${each}]`], [...place, index]);
    }
  }
  walk(before, after, [], []);
  return found;
}

// Return the field by which the items of two lists can be told apart, undefined if there is none.
function identityOf(items, ...lists) {
  return IDENTITIES.find((name) => items.every((item) => isMap(item) && Object.hasOwn(item, name) && typeof item[name] !== "object")
    && lists.every((list) => new Set(list.map((item) => item[name])).size === list.length));
}

// Return a path as text: status.conditions[type=Ready].status
export function pathText(path) {
  return path.reduce((text, step) => {
    if (/^\[.*\]$/s.test(step)) return text + step;
    return /^[\w-]+$/.test(step) ? `${text}${text && "."}${step}` : `${text}[${JSON.stringify(step)}]`;
  }, "");
}

const conditionsOf = (object) => (Array.isArray(object?.status?.conditions) ? object.status.conditions.filter(isMap) : []);

// Return the conditions that are new or have another status: [{type, before, after, reason, message, time}]
export function conditionChanges(before, after) {
  const old = new Map(conditionsOf(before).map((each) => [each.type, each.status]));
  return conditionsOf(after).filter((each) => old.get(each.type) !== each.status).map((each) => ({
    type: String(each.type), before: old.has(each.type) ? String(old.get(each.type)) : "", after: String(each.status),
    reason: String(each.reason ?? ""), message: String(each.message ?? ""), time: each.lastTransitionTime ?? "",
  }));
}

const nameOf = ({ manager, operation, subresource }) => JSON.stringify([manager, operation, subresource]);

// Return the entries of managedFields of who has written a revision: those that are new or younger, else those that
// have the fields which changed.
export function writersOf(before, after, changes) {
  const managed = after.metadata.managedFields ?? [];
  const old = new Map((before?.metadata.managedFields ?? []).map((entry) => [nameOf(entry), entry]));
  const younger = managed.filter((entry) => entry.time !== old.get(nameOf(entry))?.time || !old.has(nameOf(entry)));
  if (younger.length) return younger;
  const managers = managersByPath(after);
  const indices = new Set(changes.flatMap(({ place }) => managers(place)));
  return managed.filter((entry, i) => indices.has(i));
}

// Return when a revision was written, as far as its object tells; "" if it does not.
export function timeOfWrite(before, after, writers, conditions) {
  if (!before) return after.metadata.creationTimestamp ?? "";
  const old = new Map((before.metadata.managedFields ?? []).map((entry) => [nameOf(entry), entry.time]));
  const times = [
    ...writers.filter((entry) => entry.time !== old.get(nameOf(entry))).map((entry) => entry.time),
    ...conditions.map((each) => each.time),
  ];
  return times.filter(Boolean).sort().pop() ?? "";
}

// Return what a write was, in words.
export function titleOf(before, { revision, deleted, object }, since, changes) {
  if (deleted) return "deleted";
  if (!before) return revision > since ? "created" : "as it was first known";
  if (object.metadata.deletionTimestamp && !before.metadata.deletionTimestamp) return "marked for deletion";
  if (!changes.length) return "written without a change";
  return changes.every(({ path }) => startsWith(path, ["status"])) ? "status changed" : "changed";
}
