// The watches that are open, and how far their clients are behind.

import { html } from "./vendor/preact.js";
import { counted, duration, matches } from "./text.js";
import { changeQuery } from "./place.js";
import { Empty, Problem, Search, useFollowed } from "./parts.js";

// Open watches, those that are behind first. `query` is that of the place.
export function Watches({ source, query }) {
  const [told, error] = useFollowed((tell) => source.watches(tell), [source]);
  const { q = "", own = "" } = query;
  const rows = (told?.rows ?? []).filter((row) => (own || !row.isComponent || row.waiting) && (!q || matches(`${row.path} ${row.user} ${row.agent}`, q)))
    .sort((a, b) => b.waiting - a.waiting);
  return html`<div class="tools">
      <${Search} label="Filter watches" value=${q} onInput=${(text) => changeQuery({ q: text })} />
      <label class="choice"><input type="checkbox" checked=${Boolean(own)}
        onChange=${(event) => changeQuery({ own: event.target.checked ? "1" : "" })} /> <span>The server's own controllers</span></label>
    </div>
    ${error && html`<${Problem} error=${error} />`}
    ${told?.withheld > 0 && html`<p class="soft">Others watch what you may not list: ${told.withheld.toLocaleString("en")}.</p>`}
    ${told && (rows.length ? html`<div class="scroll" role="region" aria-label="Table of watches" tabindex="0"><table class="requests watches">
      <thead><tr>${["Path", "State", "Last event", "Open for", "User", "Program"].map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
      <tbody>${rows.map((row, i) => html`<tr key=${i}>
        <td class="long" title=${row.path}>${row.path}</td>
        <td class=${row.waiting ? "open" : ""}>${row.waiting ? `${counted(row.waiting, "event")} behind` : "up to date"}</td>
        <td>revision ${row.revision}</td><td>${duration(source.now / 1000 - row.began)}</td>
        <td>${row.user}</td><td class="soft long">${row.agent}</td></tr>`)}</tbody>
    </table></div>` : html`<${Empty}>${told.rows.length ? "No watch is like that." : "Nobody watches anything."}</${Empty}>`)}`;
}
