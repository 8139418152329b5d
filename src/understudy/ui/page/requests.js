// What the server was asked, by whom, and what became of it, as it happens.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { counted, matches } from "./text.js";
import { changeQuery, currentPlace, linkTo } from "./place.js";
import { Choice, Empty, Problem, Search, Tabs, useFollowed } from "./parts.js";
import { durationText, RequestDetail, timeText } from "./request.js";
import { Watches } from "./watches.js";

const SHOWN = 200; // rows that are there at first
const isRefused = (row) => row.status >= 400 || row.status === 0;
const READS = ["get", "list", "watch", "head"];

// All that the server is asked: requests that were answered, and watches that are open. `query` is that of the place.
export function RequestsView({ source, kinds, query }) {
  const tab = query.tab === "watches" ? "watches" : "answered";
  const tabs = [["answered", "Answered", linkTo(["requests"])], ["watches", "Open watches", linkTo(["requests"], { tab: "watches" })]];
  return html`<header class="head"><h1>Requests</h1></header>
    <${Tabs} label="Views of the requests" current=${tab} tabs=${tabs} />
    ${tab === "watches" ? html`<${Watches} source=${source} query=${query} />` : html`<${Answered} source=${source} kinds=${kinds} query=${query} />`}`;
}

// Requests that were answered and, side by side with them, the one that is chosen.
function Answered({ source, kinds, query }) {
  const [told, error] = useFollowed((tell) => source.requests(tell), [source]);
  const [held, setHeld] = useState(null); // rows that stay while others come
  const [most, setMost] = useState(SHOWN);
  const all = held ?? told?.rows ?? [];
  const rows = useMemo(() => all.filter(chooser(query)).reverse(), [all, query.q, query.verb, query.user, query.answer, query.own]);
  useEffect(() => setMost(SHOWN), [query.q, query.verb, query.user, query.answer, query.own]);
  const users = useMemo(() => [...new Set(all.filter((row) => query.own || !row.isComponent).map((row) => row.user))].sort(), [all, query.own]);
  const row = all.find((each) => String(each.number) === query.request);
  return html`<div class="tools">
      ${source.isLive && html`<button type="button" aria-pressed=${held !== null} onClick=${() => setHeld(held ? null : all)}>${held ? "Go on" : "Hold"}</button>`}
      <${Search} label="Filter requests" value=${query.q ?? ""} onInput=${(q) => changeQuery({ q })} />
      <${Choice} label="Verb" value=${query.verb ?? ""} onChange=${(verb) => changeQuery({ verb })}
        options=${[["", "all"], ["writes", "all that write"], ...[...new Set(all.map((each) => each.verb))].sort().map((verb) => [verb, verb])]} />
      <${Choice} label="User" value=${query.user ?? ""} onChange=${(user) => changeQuery({ user })}
        options=${[["", "all"], ...users.filter(Boolean).map((user) => [user, user])]} />
      <${Choice} label="Answer" value=${query.answer ?? ""} onChange=${(answer) => changeQuery({ answer })}
        options=${[["", "all"], ["refused", "refused"], ["done", "done"]]} />
      ${source.isLive && html`<label class="choice"><input type="checkbox" checked=${Boolean(query.own)}
        onChange=${(event) => changeQuery({ own: event.target.checked ? "1" : "" })} /> <span>The server's own controllers</span></label>`}
    </div>
    ${told && html`<p class="soft count">${summary(told, rows)}</p>`}
    ${error && html`<${Problem} error=${error} />`}
    ${!told && !error && html`<p class="wait">Asking the server …</p>`}
    <div class=${row ? "asked with-detail" : "asked"}>
      <div>${told && (rows.length ? html`<${Rows} rows=${rows.slice(0, most)} chosen=${row} />`
        : html`<${Empty}>${all.length ? "No request is like that." : "Nobody has asked anything yet."}</${Empty}>`)}
      ${rows.length > most && html`<p class="more"><button type="button" onClick=${() => setMost(rows.length)}>
        Show all ${rows.length.toLocaleString("en")} requests</button></p>`}</div>
      ${row && html`<${RequestDetail} key=${row.number} source=${source} kinds=${kinds} row=${row} />`}
    </div>`;
}

function summary({ withheld, rows: all }, rows) {
  const others = withheld ? `, and ${withheld.toLocaleString("en")} about what you may not read` : "";
  return `${counted(rows.length, "request")}${rows.length === all.length ? "" : ` of ${all.length.toLocaleString("en")}`}${others}`;
}

// Return a function that tells whether a query chooses a request.
function chooser({ q = "", verb = "", user = "", answer = "", own = "" }) {
  const isOfVerb = verb === "writes" ? (row) => !READS.includes(row.verb) : (row) => !verb || row.verb === verb;
  return (row) => (own || !row.isComponent || isRefused(row)) && isOfVerb(row) && (!user || row.user === user)
    && (!answer || isRefused(row) === (answer === "refused"))
    && (!q || matches(`${row.verb} ${row.path} ${row.user} ${row.agent} ${row.status} ${row.refusedBy} ${row.message}`, q));
}

function Rows({ rows, chosen }) {
  return html`<div class="scroll" role="region" aria-label="Table of requests" tabindex="0"><table class="requests">
    <thead><tr>${["Time", "Verb", "Path", "Answer", "Refused by", "User", "Took"].map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<${Row} key=${row.number} row=${row} isChosen=${row === chosen} />`)}</tbody>
  </table></div>`;
}

function Row({ row, isChosen }) {
  const { parts, query } = currentPlace();
  return html`<tr aria-current=${isChosen ? "true" : null}>
    <td class="soft">${timeText(row.time)}</td><td>${row.verb}</td>
    <td class="long"><a href=${linkTo(parts, { ...query, request: isChosen ? "" : String(row.number) })} title=${row.path}>${row.path}</a></td>
    <td class=${isRefused(row) ? "bad" : ""}>${row.status || "reset"}</td>
    <td class="long" title=${row.message}>${isRefused(row) && html`<b>${row.refusedBy}</b> ${row.message}`}</td>
    <td title=${row.agent}>${row.user || "(not known)"}</td>
    <td class="number">${durationText(row.seconds)}</td>
  </tr>`;
}
