// The life of an object: a time line of what was written, and of events; for a claim what became of it.

import { html, useMemo } from "./vendor/preact.js";
import { clockTime } from "./text.js";
import { lastLife, podsOf, stagesOf, tellingWrites, writesOf } from "./lifetime.js";
import { linkTo, linkToObject } from "./place.js";
import { Empty, Problem, useAsked, useFollowed } from "./parts.js";
import { Diff } from "./diff.js";

const MOST_PODS = 5; // whose lives are told with that of a claim

const kindOf = (kinds, group, resource) => kinds.find((kind) => kind.group === group && kind.resource === resource);

// The life of the object at a place; `stamp` changes when it may go on.
export function Life({ source, kinds, kind, namespace, name, stamp }) {
  const { present } = source;
  const isClaim = kind.group === "resource.k8s.io" && kind.resource === "resourceclaims";
  const [life, problem] = useAsked(() => present.life(kind, namespace, name), [present, kind.version, namespace, name, stamp]);
  const writes = useMemo(() => life && writesOf(life), [life]);
  const events = useEvents(present, kinds, namespace, name);
  const pods = usePods(present, kinds, namespace, isClaim && writes ? podsOf(lastLife(writes)).slice(-MOST_PODS) : []);
  if (problem) return html`<${Problem} error=${problem} />`;
  if (!writes) return html`<p class="wait">Asking the server …</p>`;
  const uids = new Set(writes.map(({ object }) => object.metadata.uid));
  const podKind = kindOf(kinds, "", "pods");
  const entries = [
    ...writes.map((write) => ({ ...write, of: kind, name })),
    ...[...pods].flatMap(([pod, each]) => tellingWrites(each).map((write) => ({ ...write, of: podKind, name: pod }))),
    ...events.filter(({ involvedObject: about }) => uids.has(about?.uid) || (!about?.uid && about?.kind === kind.kind))
      .map((event) => ({ revision: Number(event.metadata.resourceVersion), event })),
  ].sort((a, b) => b.revision - a.revision);
  if (!entries.length) return html`<${Empty}>The server knows nothing of its past.</${Empty}>`;
  return html`
    ${isClaim && writes.length > 0 && html`<${Stages} kinds=${kinds} namespace=${namespace} stages=${stagesOf(lastLife(writes), pods)} />`}
    <ol class="life">${entries.map((entry) => (entry.event
      ? html`<${EventEntry} key=${`event ${entry.revision}`} event=${entry.event} />`
      : html`<${Write} key=${entry.revision} write=${entry} namespace=${namespace} isOther=${entry.of !== kind} />`))}</ol>`;
}

// Return the events about a name, as they come.
function useEvents(present, kinds, namespace, name) {
  const kind = kindOf(kinds, "", "events");
  const [table] = useFollowed((tell) => (kind
    ? present.table(kind, { namespace: namespace || "default", full: true, fieldSelector: `involvedObject.name=${name}` }, tell)
    : tell({ columns: [], rows: [] }, null)), [present, namespace, name]);
  return (table?.rows ?? []).map((row) => row.object);
}

// Return the writes of some pods by their names. The last of them is followed: a claim does not change with it.
function usePods(present, kinds, namespace, names) {
  const kind = kindOf(kinds, "", "pods");
  const last = kind && names.at(-1);
  const [table] = useFollowed((tell) => (last
    ? present.table(kind, { namespace, fieldSelector: `metadata.name=${last}` }, tell)
    : tell({ columns: [], rows: [] }, null)), [present, namespace, last]);
  const stamp = table?.rows[0]?.object.metadata.resourceVersion ?? "";
  const [lives] = useAsked(
    () => Promise.all((kind ? names : []).map(async (name) => [name, writesOf(await present.life(kind, namespace, name))])),
    [present, namespace, names.join(), stamp]);
  return useMemo(() => new Map(lives ?? []), [lives]);
}

// --- claims --------------------------------------------------------------------------------------

function Stages({ kinds, namespace, stages }) {
  const link = ({ kind, name, text }) => {
    const found = kind && (kindOf(kinds, "", kind) ?? kindOf(kinds, "resource.k8s.io", kind));
    return found ? html`<a href=${linkToObject(found, namespace, name, { tab: "life" })}>${text}</a>` : text;
  };
  return html`<ol class="stages" aria-label="How far the claim has come">${stages.map(({ name, about, stretch }) => {
    const state = stretch ? (stretch.ended ? "over" : "done") : about.length ? "done" : "none";
    return html`<li key=${name} class=${state}><h3>${name}</h3>
      ${about.map((each, i) => html`<p key=${i}>${link(each)}</p>`)}
      <p class="soft">${stretch ? `revision ${stretch.began.revision}${stretch.ended ? ` to ${stretch.ended.revision}` : ""}`
        : about.length ? "" : name === "Template" ? "none" : "not yet"}</p></li>`;
  })}</ol>`;
}

// --- the time line -------------------------------------------------------------------------------

const writerText = ({ manager, operation, subresource }) =>
  `${manager ?? "(unknown)"} (${operation}${subresource ? ` of ${subresource}` : ""})`;

function Write({ write, namespace, isOther }) {
  const { revision, title, deleted, writers, conditions, changes, time, of, name, request } = write;
  const link = linkToObject(of, namespace, name, { at: String(deleted ? revision - 1 : revision) });
  return html`<li class=${`write ${deleted ? "bad" : ""} ${isOther ? "other" : ""}`}>
    <p class="when"><time>${clockTime(time)}</time> <a href=${link} title=${deleted ? "As it was before" : "As it was then"}>revision ${revision}</a></p>
    <div class="what"><p>${isOther && html`<span class="soft">${of.kind} ${name}:</span> `}<b>${title}</b>
        ${writers.length > 0 && html` <span class="soft">by ${writers.map(writerText).join(", ")}</span>`}
        ${request && html` <a href=${linkTo(["requests"], { request: String(request.number), at: "" })}>${request.verb} of ${request.user || "nobody known"}</a>`}</p>
      ${conditions.map((each) => html`<p key=${each.type} class="condition"><span class="tag">${each.type}: ${each.before && `${each.before} → `}${each.after}</span>
        <span class="soft">${[each.reason, each.message].filter(Boolean).join(": ")}</span></p>`)}
      <${Diff} changes=${changes} /></div></li>`;
}

function EventEntry({ event }) {
  return html`<li class=${event.type === "Warning" ? "event bad" : "event"}>
    <p class="when"><time>${clockTime(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp)}</time> <span class="soft">event</span></p>
    <p class="what"><b>${event.reason}</b> <span>${event.message}</span>
      <span class="soft"> ${event.source?.component || event.reportingComponent}${event.count > 1 ? `, ${event.count} times` : ""}</span></p></li>`;
}
