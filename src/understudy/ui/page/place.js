// The place that is shown, which is in the address bar: #/objects/apps/deployments?q=web

import { useLayoutEffect, useState } from "./vendor/preact.js";

const CORE = "core"; // stands for the group without a name

// Return {parts, query} of the address.
export function currentPlace() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody has typed it
  }
}

// Return the link to a place, at the revision that is shown if the query names no other; `at: ""` is now.
export function linkTo(parts, query = {}) {
  const { at } = currentPlace().query;
  const text = new URLSearchParams(Object.entries({ at, ...query }).filter(([, value]) => value)).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// Return the link to a kind, or to one object of it.
export function linkToKind(kind, query) {
  return linkTo(["objects", kind.group || CORE, kind.resource], query);
}

export function linkToObject(kind, namespace, name, query) {
  return linkTo(["objects", kind.group || CORE, kind.resource, namespace || "-", name], query);
}

// Return the kind at a place, undefined if the server has none.
export function kindAt(kinds, [, group, resource]) {
  return kinds.find((kind) => kind.resource === resource && (kind.group || CORE) === group);
}

// Change the query of the place without a new entry in the history.
export function changeQuery(changes) {
  const { parts, query } = currentPlace();
  history.replaceState(null, "", linkTo(parts, { ...query, ...changes }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function usePlace() {
  const [place, setPlace] = useState(currentPlace);
  useLayoutEffect(() => { // at once: the address may change before the first picture
    const follow = () => setPlace(currentPlace());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return place;
}
