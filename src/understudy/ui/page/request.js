// One request: what was sent, what became of it, and how to send it again.

import { html, useMemo, useState } from "./vendor/preact.js";
import { linesOf, lineText, withoutManagers } from "./yaml.js";
import { fieldChanges } from "./changes.js";
import { curlOf, kubectlOf, valueOf } from "./commands.js";
import { changeQuery, linkToObject } from "./place.js";
import { Problem, useAsked } from "./parts.js";
import { Diff } from "./diff.js";

// A request, by its row in the table.
export function RequestDetail({ source, kinds, row }) {
  const [detail, problem] = useAsked(() => source.request(row.number), [source, row.number]);
  const kind = kinds.find((each) => each.group === row.group && each.resource === row.resource);
  return html`<aside class="detail" aria-label="The request">
    <header><h2>${row.verb} ${row.resource ? `${row.resource}${row.subresource && `/${row.subresource}`}` : ""}</h2>
      <button type="button" class="quiet" onClick=${() => changeQuery({ request: "" })}>Close</button></header>
    <p class="path">${detail?.path ?? row.path}</p>
    <dl>${factsOf(row).map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
    ${row.status >= 400 && html`<p class="refusal"><strong>${row.refusedBy || "refused"}</strong> ${detail?.message ?? row.message}</p>`}
    ${kind && row.name && html`<p><a href=${linkToObject(kind, row.namespace, row.name)}>${kind.kind} ${row.name}</a></p>`}
    ${problem && html`<${Problem} error=${problem} />`}
    ${detail && html`<${Change} change=${detail.change} /><${Body} detail=${detail} /><${Commands} source=${source} row=${row} detail=${detail} />`}
  </aside>`;
}

function factsOf(row) {
  return [
    ["Answer", row.status || "none, the connection was reset"],
    ["Took", durationText(row.seconds)],
    ["At", timeText(row.time)],
    ["User", row.user || "(not known)"],
    ["Program", row.agent],
  ].filter(([, text]) => text);
}

// Return the time of day (UTC) of seconds since 1970, with milliseconds.
export function timeText(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 23);
}

export function durationText(seconds) {
  const milliseconds = seconds * 1000;
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  return milliseconds < 10_000 ? `${Math.round(milliseconds)} ms` : `${Math.round(seconds)} s`;
}

// The object that the request has written: what has changed, and the whole before and after.
function Change({ change }) {
  const [shown, setShown] = useState("changes");
  const { before, after } = change ?? {};
  const changes = useMemo(() => (before && after ? fieldChanges(before, after) : []), [before, after]);
  if (!change) return null;
  if (change.forgotten) return html`<h3>The object</h3><p class="soft">The server has forgotten what it was then.</p>`;
  const parts = { ...(before && after ? { changes: "What changed" } : {}), ...(before ? { before: "Before" } : {}), ...(after ? { after: "After" } : {}) };
  const part = parts[shown] ? shown : Object.keys(parts)[0];
  return html`<h3>The object ${before ? (after ? "was changed" : "was deleted") : "was created"}</h3>
    <${Parts} label="The object" parts=${parts} part=${part} onChange=${setShown} />
    ${part === "changes" ? html`<${Diff} changes=${changes} />` : html`<${Lines} value=${withoutManagers(part === "before" ? before : after)} />`}`;
}

function Body({ detail: { body } }) {
  const value = useMemo(() => valueOf(body), [body]);
  if (!body) return null;
  return html`<h3>What was sent</h3>${value ? html`<${Lines} value=${value} />` : html`<pre class="text" tabindex="0">${body}</pre>`}`;
}

function Lines({ value }) {
  return html`<pre class="text" tabindex="0">${linesOf(value).map(lineText).join("\n")}</pre>`;
}

// The request as a command, to be copied.
function Commands({ source, row, detail }) {
  const [tool, setTool] = useState("curl");
  const [copied, setCopied] = useState("");
  const command = tool === "curl" ? curlOf(row, detail, source.address) : kubectlOf(row, detail);
  const copy = () => navigator.clipboard.writeText(command).then(() => setCopied(command), () => setCopied(""));
  return html`<h3>Send it again</h3>
    <${Parts} label="Commands" parts=${{ curl: "curl", kubectl: "kubectl" }} part=${tool} onChange=${setTool} />
    ${command ? html`<pre class="text command" tabindex="0">${command}</pre>
      ${navigator.clipboard && html`<button type="button" onClick=${copy}>${copied === command ? "Copied" : "Copy"}</button>`}`
    : html`<p class="soft">kubectl has no such command.</p>`}`;
}

function Parts({ label, parts, part, onChange }) {
  return html`<p class="parts" role="group" aria-label=${label}>${Object.entries(parts).map(([name, text]) => html`<button key=${name} type="button"
    aria-pressed=${name === part} onClick=${() => onChange(name)}>${text}</button>`)}</p>`;
}
