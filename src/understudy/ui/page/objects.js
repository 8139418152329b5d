// All kinds, and the objects of one of them in the columns of the server's own tables.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { counted, matches } from "./text.js";
import { changeQuery, linkTo, linkToKind, linkToObject } from "./place.js";
import { Choice, Empty, Problem, Search, useFollowed } from "./parts.js";

const SHOWN = 300; // rows that are there at first

const groupName = (group) => group || "core";

// The kinds as a list, those that have objects first to be seen.
export function KindList({ kinds, current }) {
  const [search, setSearch] = useState("");
  const [all, setAll] = useState(false);
  const shown = kinds.filter((kind) => {
    if (search) return matches(`${kind.kind} ${kind.resource} ${kind.group} ${kind.shortNames.join(" ")}`, search);
    return all || kind.count || kind === current;
  });
  const groups = [...new Set(shown.map((kind) => kind.group))];
  return html`<nav class=${`kinds ${current ? "aside" : ""}`} aria-label="Kinds">
    <input class="search" type="search" placeholder="Find a kind" aria-label="Find a kind" value=${search}
      onInput=${(event) => setSearch(event.target.value)} />
    ${groups.map((group) => html`<section key=${group}>
      <h2>${groupName(group)}</h2>
      <ul>${shown.filter((kind) => kind.group === group).map((kind) => html`<li key=${kind.resource}>
        <a href=${linkToKind(kind)} aria-current=${kind === current ? "page" : null} title=${kind.resource}>
          <span>${kind.kind}</span><span class="count">${kind.count || ""}</span></a>
      </li>`)}</ul>
    </section>`)}
    ${!shown.length && html`<${Empty}>No kind is called so.</${Empty}>`}
    ${!search && html`<button type="button" class="quiet" onClick=${() => setAll(!all)}>
      ${all ? "Only kinds with objects" : `All ${kinds.length} kinds`}</button>`}
  </nav>`;
}

// What the server holds, at a glance.
export function Overview({ source, kinds, served }) {
  const held = kinds.filter((kind) => kind.count);
  const total = held.reduce((sum, kind) => sum + kind.count, 0);
  return html`<header class="head"><h1>Objects</h1>
      <p>${counted(total, "object")} of ${counted(held.length, "kind")}</p>
      ${source.isLive ? html`<a class="button" href=${linkTo(["apply"])}>Apply a manifest</a>` : source.present === source && html`<p class="about">${served.title}${
        served.title && ", "}at ${served.now.replace("T", " ").replace("Z", "")}, revision ${served.revision}</p>`}</header>
    <ul class="cards">${held.map((kind) => html`<li key=${`${kind.group}/${kind.resource}`}>
      <a href=${linkToKind(kind)}><span class="number">${kind.count.toLocaleString("en")}</span>
        <span class="title">${kind.kind}</span><span class="about">${groupName(kind.group)}/${kind.version}</span></a>
    </li>`)}</ul>
    ${!held.length && html`<${Empty}>The server holds nothing yet.</${Empty}>`}`;
}

// The objects of a kind. `query` is that of the place.
export function ObjectTable({ source, kind, query }) {
  const [table, error] = useFollowed(
    (tell) => source.table(kind, {}, tell), [source, kind.group, kind.version, kind.resource]);
  const [most, setMost] = useState(SHOWN);
  useEffect(() => setMost(SHOWN), [kind.group, kind.resource, query.q, query.ns]);
  const namespaces = useMemo(
    () => [...new Set((table?.rows ?? []).map((row) => row.object.metadata.namespace ?? ""))].filter(Boolean).sort(),
    [table]);
  const rows = useMemo(() => chosen(table, query), [table, query.q, query.ns, query.sort]);
  return html`<header class="head"><p class="path"><a href=${linkTo(["objects"])}>Objects</a></p><h1>${kind.kind}</h1>
      <p>${groupName(kind.group)}/${kind.version}${table && ` · ${counted(table.rows.length, "object")}`}</p>
      ${source.isLive && html`<a class="button" href=${linkTo(["apply"], { kind: `${kind.group}/${kind.resource}` })}>New</a>`}
    </header>
    <div class="tools">
      <${Search} label="Filter rows" value=${query.q ?? ""} onInput=${(q) => changeQuery({ q })} />
      ${kind.namespaced && html`<${Choice} label="Namespace" value=${query.ns ?? ""} onChange=${(ns) => changeQuery({ ns })}
        options=${[["", "all"], ...namespaces.map((name) => [name, name])]} />`}
    </div>
    ${error && html`<${Problem} error=${error} />`}
    ${!table && !error && html`<p class="wait">Asking the server …</p>`}
    ${table && !rows.length && html`<${Empty}>${table.rows.length ? "No row has all of these words." : "There are none."}</${Empty}>`}
    ${rows.length > 0 && html`<${Rows} source=${source} kind=${kind} columns=${table.columns} rows=${rows.slice(0, most)} sort=${query.sort} />`}
    ${rows.length > most && html`<p class="more"><button type="button" onClick=${() => setMost(rows.length)}>
      Show all ${rows.length.toLocaleString("en")} rows</button></p>`}`;
}

// Return the rows of a table that a query chooses, in its order.
function chosen(table, { q = "", ns = "", sort = "" }) {
  if (!table) return [];
  const rows = table.rows.filter(({ cells, object }) =>
    (!ns || object.metadata.namespace === ns) && (!q || matches(`${object.metadata.namespace ?? ""} ${cells.join(" ")}`, q)));
  const names = (row) => [row.object.metadata.namespace ?? "", row.object.metadata.name];
  const index = table.columns.findIndex((column) => column.name === sort.replace(/^-/, ""));
  const isAge = table.columns[index]?.name === "Age";
  const value = (row) => (isAge ? row.object.metadata.creationTimestamp : row.cells[index]);
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const direction = sort.startsWith("-") !== isAge ? -1 : 1;
  const byName = (a, b) => order(names(a)[0], names(b)[0]) || order(names(a)[1], names(b)[1]);
  return rows.sort((a, b) => (index < 0 ? 0 : direction * order(String(value(a)), String(value(b)))) || byName(a, b));
}

function Rows({ source, kind, columns, rows, sort = "" }) {
  const shown = [...columns.entries()].filter(([, column]) => !column.priority);
  const sorted = (name) => (sort === name ? "ascending" : sort === `-${name}` ? "descending" : null);
  const next = (name) => (sort === name ? `-${name}` : name);
  return html`<div class="scroll" role="region" aria-label=${`Table of ${kind.resource}`} tabindex="0">
    <table onKeyDown=${moveFocus}>
      <thead><tr>
        ${kind.namespaced && html`<th scope="col">Namespace</th>`}
        ${shown.map(([i, column]) => html`<th key=${i} scope="col" aria-sort=${sorted(column.name)} title=${column.description}>
          <button type="button" onClick=${() => changeQuery({ sort: next(column.name) })}>${column.name}</button></th>`)}
      </tr></thead>
      <tbody>${rows.map((row) => html`<${Row} key=${row.object.metadata.uid ?? row.cells[0]} row=${row} kind=${kind}
        shown=${shown} age=${source.age(row.object.metadata.creationTimestamp)} />`)}</tbody>
    </table>
  </div>`;
}

function Row({ row, kind, shown, age }) {
  const { name, namespace, deletionTimestamp } = row.object.metadata;
  const [link] = shown.find(([, column]) => column.format === "name") ?? shown[0]; // tables of events show no names
  return html`<tr class=${deletionTimestamp ? "going" : ""}>
    ${kind.namespaced && html`<td class="soft">${namespace}</td>`}
    ${shown.map(([i, column]) => {
      const text = String((column.name === "Age" && age) || (row.cells[i] ?? ""));
      if (i === link) return html`<td key=${i}><a href=${linkToObject(kind, namespace, name)}>${text}</a></td>`;
      return html`<td key=${i} class=${`kind-${column.type} ${stateOf(column.name, text)}`}>${text}</td>`;
    })}
  </tr>`;
}

// Return the class of a state that deserves a color, "" for others.
export function stateOf(column, text) {
  if (!/^(status|state|ready|reason|phase|type)$/i.test(column)) return "";
  if (/error|fail|backoff|invalid|notready|unknown|lost|warning/i.test(text) || text === "False") return "bad";
  if (/pending|terminating|waiting|progress|deleted/i.test(text)) return "open";
  return /running|active|bound|ready|available|true|succeeded|completed|allocated|reserved/i.test(text) ? "good" : "";
}

// Let the arrow keys go from one row's link to the next.
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.target.tagName !== "A") return;
  const links = [...event.currentTarget.querySelectorAll("tbody a")];
  links[links.indexOf(event.target) + step]?.focus();
  event.preventDefault();
}
