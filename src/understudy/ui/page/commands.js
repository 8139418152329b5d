// Requests as commands for a shell.

import { yamlOf } from "./yaml.js";

const PATCHES = { "application/merge-patch+json": "merge", "application/json-patch+json": "json", "application/strategic-merge-patch+json": "strategic" };
const APPLY = "application/apply-patch+yaml";
const SUBRESOURCES = ["status", "scale", "resize"]; // that kubectl can name
const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g; // a terminal would take them for keys

// Return a text as one word of bash or zsh, whatever is in it.
export function quoted(text) {
  if (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(text)) return text;
  if (text.search(CONTROL) < 0) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = text.replace(/[\\']/g, "\\$&").replace(CONTROL, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `$'${escaped}'`;
}

// Return a command that reads a text.
function withInput(command, text) {
  if (text.search(CONTROL) >= 0) return `${command} <<< ${quoted(text)}`;
  const lines = text.replace(/\n$/, "").split("\n");
  let end = "END";
  while (lines.includes(end)) end += "D";
  return [`${command} <<'${end}'`, ...lines, end].join("\n");
}

// Return a request as curl sends it to a server. The token, if the server speaks HTTPS, is in $TOKEN.
export function curlOf(row, { path, contentType, body }, address) {
  const parts = ["curl"];
  if (address.startsWith("https:")) parts.push("--insecure", '--header "Authorization: Bearer $TOKEN"');
  if (row.method === "HEAD") parts.push("--head");
  else if (row.method !== "GET") parts.push(`--request ${quoted(row.method)}`);
  if (row.verb === "watch") parts.push("--no-buffer");
  if (body) parts.push(`--header ${quoted(`Content-Type: ${contentType}`)}`, `--data-binary ${quoted(body)}`);
  return [...parts, quoted(address + path)].join(" \\\n  ");
}

// The words of kubectl for each verb, and what it reads; null for a request that it can only send by its path.
const SAID = {
  get: ({ named, place, sub }) => [["get", ...named, ...place, ...sub, "--output=yaml"]],
  list: ({ resource, everywhere, selectors }) => [["get", resource, ...everywhere, ...selectors]],
  watch: ({ resource, everywhere, selectors }) => [["get", resource, ...everywhere, ...selectors, "--watch"]],
  delete: ({ named, place, dryRun }) => [["delete", ...named, ...place, ...dryRun, "--wait=false"]],
  deletecollection: ({ query, resource, place }) => (query.size ? null : [["delete", resource, "--all", ...place, "--wait=false"]]),
  create: ({ place, dryRun, manager, manifest }) => [["create", ...place, ...dryRun, ...manager, "--filename=-"], manifest],
  update: ({ place, dryRun, manager, sub, manifest }) => [["replace", ...place, ...dryRun, ...manager, ...sub, "--filename=-"], manifest],
  patch: ({ type, ...asked }) => (type === APPLY ? applied(asked) : [["patch", ...asked.named, ...asked.place, ...asked.dryRun,
    ...asked.manager, ...asked.sub, `--type=${PATCHES[type] ?? "strategic"}`, "--patch", asked.body]]),
};

function applied({ query, place, dryRun, manager, sub, manifest }) {
  const forced = query.get("force") === "true" ? ["--force-conflicts"] : [];
  return [["apply", "--server-side", ...place, ...dryRun, ...manager, ...forced, ...sub, "--filename=-"], manifest];
}

// Return a request as kubectl sends it: by its verb, or else by its path; "" for one that it cannot send.
export function kubectlOf(row, detail) {
  const isKnown = row.resource && (!row.subresource || SUBRESOURCES.includes(row.subresource))
    && ![row.name, row.resource].some((word) => word.startsWith("-")); // kubectl would take it for a flag
  const [words, input] = (isKnown && SAID[row.verb]?.(asked(row, detail))) || byPath(row, detail);
  const command = `kubectl ${words.map(quoted).join(" ")}`;
  if (!words.length) return "";
  return input ? withInput(command, input) : command;
}

function byPath({ method }, { path, body }) {
  const verb = { GET: "get", POST: "create", PUT: "replace", DELETE: "delete" }[method];
  if (!verb) return [[]];
  return body ? [[verb, `--raw=${path}`, "--filename=-"], body] : [[verb, `--raw=${path}`]];
}

// Return the parts of commands that a request asks for.
function asked(row, { path, contentType, body }) {
  const query = new URLSearchParams(path.split("?")[1] ?? "");
  const resource = row.group ? `${row.resource}.${row.group}` : row.resource;
  const place = row.namespace && resource !== "namespaces" ? ["--namespace", row.namespace] : [];
  const flag = (parameter, name) => (query.get(parameter) ? [`--${name}=${query.get(parameter)}`] : []);
  const value = valueOf(body);
  return {
    query, resource, place, body,
    named: [resource, row.name],
    everywhere: place.length ? place : ["--all-namespaces"],
    selectors: [...flag("labelSelector", "selector"), ...flag("fieldSelector", "field-selector")],
    manager: flag("fieldManager", "field-manager"),
    dryRun: query.has("dryRun") ? ["--dry-run=server"] : [],
    sub: row.subresource ? [`--subresource=${row.subresource}`] : [],
    type: contentType.split(";")[0],
    manifest: value ? yamlOf(value) : body,
  };
}

// Return the object or list in a body, null if it holds none.
export function valueOf(body) {
  try {
    const value = JSON.parse(body);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
