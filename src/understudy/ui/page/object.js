// One object: its YAML with who manages which field, what owns it and what it owns, and an editor.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { linesOf, managersByPath, withoutManagers, yamlOf } from "./yaml.js";
import { pathOf } from "./source.js";
import { linkTo, linkToKind, linkToObject } from "./place.js";
import { Confirm, Empty, Problem, Tabs, useFollowed } from "./parts.js";
import { Editor } from "./editor.js";
import { Life } from "./life.js";

const COLORS = 8; // that managers have in the style sheet
const YAML = "application/yaml";

// One object at a place.
export function ObjectView({ source, kind, kinds, place }) {
  const [, , , space, name] = place.parts;
  const namespace = space === "-" ? "" : space;
  const tab = place.query.tab ?? "yaml";
  const [table, error] = useFollowed(
    (tell) => source.table(kind, { namespace, full: true, fieldSelector: `metadata.name=${name}` }, tell),
    [source, kind.group, kind.version, kind.resource, namespace, name]);
  const [last, setLast] = useState(null);
  const object = table?.rows[0]?.object ?? null;
  useEffect(() => setLast(null), [source, kind.resource, namespace, name]);
  useEffect(() => { if (object) setLast(object); }, [object]);
  const shown = object ?? last;
  const gone = table && !object;
  const tabs = [["yaml", "YAML"], ["life", "Life"], ["owners", "Owners"], ["events", "Events"], ...(source.isLive ? [["edit", "Edit"]] : [])];
  const link = (each) => linkToObject(kind, namespace, name, { tab: each === "yaml" ? "" : each });
  return html`<header class="head">
      <p class="path"><a href=${linkTo(["objects"])}>Objects</a> / <a href=${linkToKind(kind)}>${kind.kind}</a>${namespace && html` / <a href=${linkToKind(kind, { ns: namespace })}>${namespace}</a>`}</p>
      <h1>${name}</h1>
      ${shown && html`<${Facts} source=${source} object=${shown} gone=${gone} />`}
      ${source.isLive && object && html`<${Delete} source=${source} kind=${kind} object=${object} />`}
    </header>
    ${error && html`<${Problem} error=${error} />`}
    ${gone && !last && html`<${Empty}>${nothing(source)}</${Empty}>`}
    ${(shown || gone) && html`<${Tabs} label="Views of the object" current=${tab}
      tabs=${tabs.filter(([each]) => shown || each === "life").map(([each, text]) => [each, text, link(each)])} />`}
    ${(shown || gone) && tab === "life" && html`<${Life} source=${source} kinds=${kinds} kind=${kind} namespace=${namespace} name=${name}
      stamp=${`${object?.metadata.resourceVersion} ${gone}`} />`}
    ${shown && html`
      ${tab === "yaml" && html`<${Yaml} object=${shown} />`}
      ${tab === "owners" && html`<${Owners} source=${source} kinds=${kinds} object=${shown} />`}
      ${tab === "events" && html`<${Events} source=${source} kinds=${kinds} object=${shown} />`}
      ${tab === "edit" && html`<${Edit} source=${source} kind=${kind} object=${shown} back=${link("yaml")} />`}`}`;
}

function nothing(source) {
  if (source.isLive) return "There is no such object. It may come: this page waits for it.";
  return source.present === source ? "There is no such object." : "There was no such object at this revision.";
}

function Facts({ source, object, gone }) {
  const { creationTimestamp, generation, resourceVersion, deletionTimestamp, finalizers = [] } = object.metadata;
  const facts = [
    creationTimestamp && `created ${source.age(creationTimestamp)} ago`,
    generation && `generation ${generation}`,
    resourceVersion && `revision ${resourceVersion}`,
  ].filter(Boolean);
  return html`<p>${facts.join(" · ")}
    ${gone && html` <span class="tag bad">deleted</span>`}
    ${!gone && deletionTimestamp && html` <span class="tag open">waits for ${finalizers.join(", ") || "its end"}</span>`}</p>`;
}

function Delete({ source, kind, object }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState(null);
  const { namespace, name, uid } = object.metadata;
  async function answer(yes) {
    if (!yes) return setAsked(false);
    try {
      const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid } });
      await source.send("DELETE", pathOf(kind, namespace, name), { body, type: "application/json" });
      setAsked(false);
    } catch (error) {
      setProblem(error);
    }
  }
  return html`<button type="button" class="danger" onClick=${() => setAsked(true)}>Delete</button>
    ${asked && html`<${Confirm} question=${`Delete ${kind.kind} ${name}?`} action="Delete" problem=${problem} onAnswer=${answer} />`}`;
}

// --- YAML ----------------------------------------------------------------------------------------

// An object as YAML; a bar beside each line has the color of the manager of its field.
export function Yaml({ object }) {
  const [only, setOnly] = useState(-1);
  const managed = object.metadata?.managedFields ?? [];
  const [lines, managers] = useMemo(() => [linesOf(withoutManagers(object)), managersByPath(object)], [object]);
  return html`<div class="yaml">
    <div class="scroll" role="region" aria-label="YAML" tabindex="0"><ol class="lines">${lines.map((line, i) => {
      const of = managers(line.path);
      const classes = [of.length ? `m${of[0] % COLORS}` : "", only >= 0 && !of.includes(only) ? "dim" : ""].join(" ");
      return html`<li key=${i} class=${classes} title=${of.map((each) => managerOf(managed[each])).join(", ")}>
        <span>${" ".repeat(line.indent)}${line.dash}</span>${line.key !== null && html`<span class="key">${line.key}:</span>`}${line.key !== null && line.value ? " " : ""}<span class=${valueClass(line)}>${line.value}</span></li>`;
    })}</ol></div>
    <aside class="managers" aria-label="Managers of fields">
      <h2>Managed by</h2>
      ${!managed.length && html`<p class="soft">Nobody: the server began with it.</p>`}
      <ul>${managed.map((entry, i) => html`<li key=${i}><button type="button" class=${`m${i % COLORS}`} aria-pressed=${only === i}
        onClick=${() => setOnly(only === i ? -1 : i)}>
        <b>${String(entry.manager ?? "(unknown)")}</b>
        <span>${String(entry.operation)}${entry.subresource ? ` of ${entry.subresource}` : ""}</span>
        <span class="soft">${String(entry.time ?? "").replace("T", " ").replace("Z", "")}</span></button></li>`)}</ul>
    </aside>
  </div>`;
}

const managerOf = (entry) => `${entry.manager} (${entry.operation}${entry.subresource ? `, ${entry.subresource}` : ""})`;

function valueClass({ key, value }) {
  if (key === null && !value) return "";
  if (/^(true|false|null)$/.test(value)) return "word";
  return /^-?[\d.]+$/.test(value) ? "figure" : "";
}

// --- owners --------------------------------------------------------------------------------------

function Owners({ source, kinds, object }) {
  const [around, setAround] = useState(null);
  const [problem, setProblem] = useState(null);
  const { uid, resourceVersion } = object.metadata;
  useEffect(() => { source.owners(uid).then(setAround, setProblem); }, [source, uid, resourceVersion]);
  if (problem) return html`<${Problem} error=${problem} />`;
  if (!around) return html`<p class="wait">Asking the server …</p>`;
  const byUid = new Map(around.map((each) => [each.uid, each]));
  const roots = around.filter((each) => !each.owners.some((owner) => byUid.has(owner)));
  if (around.length < 2) return html`<${Empty}>Nothing owns it, and it owns nothing.</${Empty}>`;
  return html`<ul class="tree">${roots.map((each) =>
    html`<${Branch} key=${each.uid} each=${each} around=${around} kinds=${kinds} uid=${uid} above=${[]} />`)}</ul>`;
}

function Branch({ each, around, kinds, uid, above }) {
  const kind = kinds.find((known) => known.group === each.group && known.resource === each.resource);
  const below = around.filter((other) => other.owners.includes(each.uid) && !above.includes(other.uid));
  const text = html`<b>${each.kind}</b> ${each.namespace && `${each.namespace}/`}${each.name}`;
  return html`<li>${each.uid === uid ? html`<span class="here">${text}</span>`
    : html`<a href=${linkToObject(kind, each.namespace, each.name, { tab: "owners" })}>${text}</a>`}
    ${below.length > 0 && html`<ul>${below.map((other) => html`<${Branch} key=${other.uid} each=${other} around=${around}
      kinds=${kinds} uid=${uid} above=${[...above, each.uid]} />`)}</ul>`}</li>`;
}

// --- events --------------------------------------------------------------------------------------

function Events({ source, kinds, object }) {
  const kind = kinds.find((each) => !each.group && each.resource === "events");
  const { uid, namespace = "default" } = object.metadata;
  const [table, error] = useFollowed((tell) => kind
    ? source.table(kind, { namespace, full: true, fieldSelector: `involvedObject.uid=${uid}` }, tell)
    : tell({ columns: [], rows: [] }, null), [source, uid]);
  if (error) return html`<${Problem} error=${error} />`;
  const events = (table?.rows ?? []).map((row) => row.object).sort((a, b) => (timeOf(a) < timeOf(b) ? 1 : -1));
  if (!events.length) return html`<${Empty}>${table ? "No event is about it." : "Asking the server …"}</${Empty}>`;
  return html`<ol class="events">${events.map((event) => html`<li key=${event.metadata.uid} class=${event.type === "Warning" ? "bad" : ""}>
    <time>${timeOf(event).slice(11, 19)}</time><b>${event.reason}</b> <span>${event.message}</span>
    <span class="soft">${event.source?.component || event.reportingComponent}${event.count > 1 ? `, ${event.count} times` : ""}</span></li>`)}</ol>`;
}

const timeOf = (event) => String(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp);

// --- editing -------------------------------------------------------------------------------------

function Edit({ source, kind, object, back }) {
  const [first] = useState(() => yamlOf(withoutManagers(object)));
  const { namespace, name } = object.metadata;
  const target = () => ({ method: "PUT", path: pathOf(kind, namespace, name), type: YAML, query: { fieldManager: "understudy-ui" } });
  const leave = () => { location.hash = back; };
  return html`<${Editor} source=${source} text=${first} target=${target} action="Replace" onStored=${leave} onLeave=${leave} />`;
}

// A manifest of any kind, which is applied.
export function Apply({ source, kinds, query }) {
  const kind = kinds.find((each) => `${each.group}/${each.resource}` === query.kind);
  const about = kind ?? { group: "", version: "v1", kind: "ConfigMap", namespaced: true };
  const apiVersion = about.group ? `${about.group}/${about.version}` : about.version;
  const space = about.namespaced ? "  namespace: default\n" : "";
  const [first] = useState(`apiVersion: ${apiVersion}\nkind: ${about.kind}\nmetadata:\n  name: \n${space}`);
  function target({ apiVersion: asked, kind: named, namespace, name }) {
    const [group, version] = asked.includes("/") ? asked.split("/") : ["", asked];
    const known = kinds.find((each) => each.kind === named && each.group === group);
    if (!known) throw new Error(`the server has no kind ${named || "without a name"} in ${asked || "no apiVersion"}`);
    if (!name) throw new Error("metadata.name is missing");
    const path = pathOf({ ...known, version }, namespace || "default", name);
    return { method: "PATCH", path, type: "application/apply-patch+yaml", query: { fieldManager: "understudy-ui", force: "true" } };
  }
  const show = (object) => {
    const [group] = object.apiVersion.includes("/") ? object.apiVersion.split("/") : [""];
    const known = kinds.find((each) => each.kind === object.kind && each.group === group);
    location.hash = linkToObject(known, object.metadata.namespace, object.metadata.name);
  };
  return html`<header class="head"><h1>Apply a manifest</h1><p>Creates the object, or changes the fields that the manifest has.</p></header>
    <${Editor} source=${source} text=${first} target=${target} action="Apply" onStored=${show} onLeave=${() => history.back()} />`;
}
