// Devices: which node and pool has them, who holds them, and why claims wait.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { counted, matches, nameOf } from "./text.js";
import { changeQuery, currentPlace, linkTo, linkToObject } from "./place.js";
import { Choice, Empty, Problem, Search, useFollowed } from "./parts.js";
import { EVERYWHERE, SELECTED, groupsOf, inventoryOf } from "./inventory.js";

const LARGE = 160; // devices up to which each one shows its name
const STATES = { held: "held", free: "free", tainted: "tainted", blocked: "no counters left" };

const kindOf = (kinds, group, resource) => kinds.find((kind) => kind.group === group && kind.resource === resource);

function useObjects(source, kind) {
  const [table, error] = useFollowed(
    (tell) => (kind ? source.table(kind, { full: true }, tell) : tell({ columns: [], rows: [] }, null)), [source, kind?.version]);
  return [useMemo(() => table?.rows.map((row) => row.object).sort((a, b) => order(a.metadata.name, b.metadata.name)), [table]), error];
}

const order = new Intl.Collator("en", { numeric: true }).compare;

export function DevicesView({ source, kinds, query }) {
  const draKind = (resource) => kindOf(kinds, "resource.k8s.io", resource);
  const [slices, noSlices] = useObjects(source, draKind("resourceslices"));
  const [claims, noClaims] = useObjects(source, draKind("resourceclaims"));
  const [nodes, noNodes] = useObjects(source, kindOf(kinds, "", "nodes"));
  const error = noSlices ?? noClaims ?? noNodes;
  const inventory = useMemo(() => slices && claims && nodes && inventoryOf(slices, claims, nodes), [slices, claims, nodes]);
  if (error && !inventory) return html`<${Problem} error=${error} />`;
  if (!inventory) return html`<p class="wait">Asking the server …</p>`;
  const chosen = inventory.devices.find((device) => device.key === query.device);
  return html`<header class="head"><h1>Devices</h1><${Summary} inventory=${inventory} /></header>
    ${inventory.pending.length > 0 && html`<${Pending} source=${source} kinds=${kinds} claims=${inventory.pending} />`}
    <${Tools} inventory=${inventory} query=${query} />
    <div class=${`stage ${chosen ? "with-detail" : ""}`}>
      <${Places} kinds=${kinds} inventory=${inventory} query=${query} />
      ${chosen && html`<${Detail} kinds=${kinds} device=${chosen} />`}
    </div>
    ${!inventory.devices.length && html`<${Empty}>No driver has published devices.</${Empty}>`}`;
}

function Summary({ inventory }) {
  const { devices } = inventory;
  const parts = Object.keys(STATES).map((state) => [state, devices.filter((device) => device.state === state).length]);
  const admins = devices.filter((device) => device.holders.some((holder) => holder.isAdmin)).length;
  return html`<p>${counted(devices.length, "device")} on ${counted(inventory.places.length, "place").replace("places", "nodes").replace("place", "node")}</p>
    <div class="legend">${parts.filter(([, count]) => count).map(([state, count]) => html`<span key=${state}>
      <i class=${`cell ${state}`}></i>${count.toLocaleString("en")} ${STATES[state]}</span>`)}
      ${admins > 0 && html`<span><i class="cell free admin"></i>${admins} with admin access</span>`}</div>
    ${devices.length > 0 && html`<div class="share" aria-hidden="true">${parts.map(([state, count]) =>
      html`<i key=${state} class=${state} style=${{ width: `${(100 * count) / devices.length}%` }}></i>`)}</div>`}`;
}

function Tools({ inventory, query }) {
  const choices = (values) => [["", "all"], ...[...new Set(values)].filter(Boolean).sort(order).map((value) => [value, value])];
  const holders = inventory.devices.flatMap((device) => device.holders);
  return html`<div class="tools">
    <${Search} label="Filter nodes, pools, devices, claims" value=${query.q ?? ""} onInput=${(q) => changeQuery({ q })} />
    <${Choice} label="Driver" value=${query.driver ?? ""} onChange=${(driver) => changeQuery({ driver })}
      options=${choices(inventory.devices.map((device) => device.pool.driver))} />
    <${Choice} label="Class" value=${query.class ?? ""} onChange=${(each) => changeQuery({ class: each })}
      options=${choices(holders.map((holder) => holder.className))} />
    <${Choice} label="Namespace" value=${query.ns ?? ""} onChange=${(ns) => changeQuery({ ns })}
      options=${choices(holders.map((holder) => holder.namespace))} />
    <${Choice} label="State" value=${query.state ?? ""} onChange=${(state) => changeQuery({ state })}
      options=${[["", "all"], ...Object.entries(STATES)]} />
  </div>`;
}

// Report whether a query chooses a device.
function isChosen(device, place, { q = "", driver, class: className, ns, state }) {
  if ((driver && device.pool.driver !== driver) || (state && device.state !== state)) return false;
  if (className && !device.holders.some((holder) => holder.className === className)) return false;
  if (ns && !device.holders.some((holder) => holder.namespace === ns)) return false;
  return !q || matches([place.name, device.key, ...device.holders.flatMap((holder) => [holder.name, ...holder.pods])].join(" "), q);
}

// --- nodes ---------------------------------------------------------------------------------------

function Places({ kinds, inventory, query }) {
  const isNarrow = query.q || query.driver || query.class || query.ns || query.state;
  const shown = useMemo(() => inventory.places.map((place) => ({
    ...place,
    pools: place.pools.map((part) => ({ ...part, all: part.devices.length, devices: part.devices.filter((device) => isChosen(device, place, query)) }))
      .filter((part) => part.devices.length),
  })).filter((place) => place.pools.length || (!isNarrow && place.node))
    .sort((a, b) => rank(a) - rank(b) || order(a.name, b.name)), [inventory, query.q, query.driver, query.class, query.ns, query.state]);
  const isLarge = inventory.devices.length <= LARGE;
  const select = (event) => {
    const cell = event.target.closest("[data-device]");
    if (cell) changeQuery({ device: cell.dataset.device === query.device ? "" : cell.dataset.device });
  };
  if (!shown.length && inventory.devices.length) return html`<${Empty}>No device is as asked for.</${Empty}>`;
  return html`<div class=${`places ${isLarge ? "large" : "small"}`} onClick=${select} onKeyDown=${moveFocus}>
    ${shown.map((place) => html`<${Place} key=${place.name} kinds=${kinds} place=${place} isLarge=${isLarge} selected=${query.device} />`)}</div>`;
}

const rank = ({ name, pools }) => (pools.length ? 0 : 2) + (name === EVERYWHERE || name === SELECTED ? 1 : 0);

function Place({ kinds, place, isLarge, selected }) {
  const all = place.pools.flatMap((part) => part.devices);
  const held = all.filter((device) => device.state === "held").length;
  const taints = place.node?.spec?.taints ?? [];
  return html`<section class="place" aria-label=${place.name}>
    <header><h2>${place.node ? html`<a href=${linkToObject(kindOf(kinds, "", "nodes"), "", place.name)}>${place.name}</a>` : place.name}</h2>
      <span class="soft">${all.length ? `${held}/${all.length}` : "no devices"}</span></header>
    ${taints.length > 0 && html`<p class="taints">${taints.map((taint, i) => html`<span key=${i} class="tag open" title=${`${taint.key}:${taint.effect}`}>${taint.key.split("/").pop()}</span>`)}</p>`}
    ${place.pools.map((part) => html`<${Pool} key=${part.key} part=${part} isLarge=${isLarge} selected=${selected}
      isNamed=${place.pools.length > 1 || part.name !== place.name} />`)}
  </section>`;
}

function Pool({ part, isLarge, selected, isNamed }) {
  const isIncomplete = part.slices.length < part.expected;
  return html`<div class="pool">
    ${(isNamed || isLarge) && html`<h3>${isNamed && html`<b>${part.name}</b>`} <span>${part.driver}</span></h3>`}
    ${isIncomplete && html`<p class="open">generation ${part.generation} has ${part.slices.length} of ${part.expected} slices</p>`}
    ${groupsOf(part).map(({ set, counters, devices }) => html`<div key=${set} class=${set ? "shared" : ""}>
      ${set && isLarge && html`<div class="counters"><b>${set}</b>${counters.map((counter) => html`<${Bar} key=${counter.name}
        name=${counter.name} part=${counter.used / (counter.size || 1)} text=${`of ${counter.total}`} />`)}</div>`}
      <ul class="cells">${devices.map((device, i) => html`<${Cell} key=${device.key} device=${device} isLarge=${isLarge}
        isSelected=${device.key === selected} isFirst=${i === 0} />`)}</ul>
    </div>`)}
  </div>`;
}

function Cell({ device, isLarge, isSelected, isFirst }) {
  const { name, state, holders, taints } = device;
  const users = holders.map((holder) => `${holder.name}${holder.isAdmin ? " (admin access)" : ""}`).join(", ");
  const label = `${name}: ${STATES[state]}${users && `, ${users}`}${taints.length ? ", tainted" : ""}`;
  const classes = `cell ${state} ${holders.some((holder) => holder.isAdmin) ? "admin" : ""} ${taints.length ? "has-taint" : ""}`;
  const share = device.capacities.find((capacity) => capacity.part !== null);
  return html`<li><button type="button" class=${classes} data-device=${device.key} aria-pressed=${isSelected} title=${label}
    aria-label=${isLarge ? null : label} tabindex=${isFirst ? 0 : -1}>
    ${isLarge && html`<b>${name}</b><span>${users || STATES[state]}</span>
      ${share && html`<i class="fill" style=${{ width: `${Math.min(100, 100 * share.part)}%` }}></i>`}`}
  </button></li>`;
}

function Bar({ name, part, text }) {
  const percent = Math.round(100 * part);
  return html`<div class="bar"><span>${name}</span><meter min="0" max="100" value=${Math.min(percent, 100)} aria-label=${`${name}: ${percent} % in use`}></meter>
    <span class="soft">${percent} % ${text}</span></div>`;
}

// Let the arrow keys go from device to device.
function moveFocus(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.dataset.device) return;
  const cells = [...event.currentTarget.querySelectorAll("[data-device]")];
  cells[cells.indexOf(event.target) + step]?.focus();
  event.preventDefault();
}

// --- one device ----------------------------------------------------------------------------------

function Detail({ kinds, device }) {
  const { body, holders, taints, pool, slice } = device;
  const claimKind = kindOf(kinds, "resource.k8s.io", "resourceclaims"), podKind = kindOf(kinds, "", "pods");
  const attributes = Object.entries(body.attributes ?? {});
  return html`<aside class="detail" aria-label="Device">
    <header><h2>${device.name}</h2><button type="button" class="quiet" aria-label="Close" onClick=${() => changeQuery({ device: "" })}>✕</button></header>
    <p class="soft">${pool.key} on ${device.place}</p>
    <h3>Held by</h3>
    ${!holders.length && html`<p>nobody${device.state === "blocked" ? ": too little of its counters is left" : ""}</p>`}
    <ul>${holders.map((holder, i) => html`<li key=${i}>
      <a href=${linkToObject(claimKind, holder.namespace, holder.claim.metadata.name)}>${holder.name}</a> request ${holder.request}
      ${holder.isAdmin && html` <span class="tag">admin access</span>`}
      ${holder.pods.map((pod) => html`<div key=${pod}>for pod <a href=${linkToObject(podKind, holder.namespace, pod)}>${pod}</a></div>`)}
      ${Object.entries(holder.consumed).map(([name, amount]) => html`<div key=${name} class="soft">${name} ${amount}</div>`)}
    </li>`)}</ul>
    ${taints.length > 0 && html`<h3>Taints</h3><ul>${taints.map((taint, i) => html`<li key=${i} class="open">${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}</li>`)}</ul>`}
    ${device.capacities.length > 0 && html`<h3>Capacity</h3>${device.capacities.map((capacity) => capacity.part === null
      ? html`<p key=${capacity.name}>${capacity.name} ${capacity.total}</p>`
      : html`<${Bar} key=${capacity.name} name=${capacity.name} part=${capacity.part} text=${`of ${capacity.total}, ${counted(capacity.users, "claim")}`} />`)}`}
    ${device.consumes.length > 0 && html`<h3>Takes of shared counters</h3>${device.consumes.map((set) => html`<p key=${set.counterSet}>${set.counterSet}: ${
      Object.entries(set.counters ?? {}).map(([name, counter]) => `${name} ${counter.value}`).join(", ")}</p>`)}`}
    ${attributes.length > 0 && html`<h3>Attributes</h3><dl>${attributes.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${String(Object.values(value)[0])}</dd></div>`)}</dl>`}
    <p><a href=${linkToObject(kindOf(kinds, "resource.k8s.io", "resourceslices"), "", slice.metadata.name)}>slice ${slice.metadata.name}</a></p>
  </aside>`;
}

// --- claims that wait ----------------------------------------------------------------------------

function Pending({ source, kinds, claims }) {
  const [all, setAll] = useState(false);
  const shown = all ? claims : claims.slice(0, 5);
  return html`<section class="pending" aria-label="Claims that wait"><h2>${counted(claims.length, "claim")} without devices</h2>
    <ul>${shown.map((claim) => html`<${Waiting} key=${claim.metadata.uid} source=${source} kinds=${kinds} claim=${claim} />`)}</ul>
    ${claims.length > shown.length && html`<button type="button" class="quiet" onClick=${() => setAll(true)}>All ${claims.length}</button>`}</section>`;
}

function Waiting({ source, kinds, claim }) {
  const [open, setOpen] = useState(false);
  const [why, setWhy] = useState(null);
  const [problem, setProblem] = useState(null);
  const name = nameOf(claim.metadata), isPast = source !== source.present;
  useEffect(() => {
    if (!open || isPast) return;
    setProblem(null);
    source.explanation(name).then(setWhy, setProblem);
  }, [open, source, name, claim.metadata.resourceVersion]);
  const asks = (claim.spec?.devices?.requests ?? []).map((request) => {
    const exact = request.exactly ?? request;
    const subs = (request.firstAvailable ?? []).map((each) => each.deviceClassName).join(" or ");
    return `${request.name}: ${exact.allocationMode === "All" ? "all" : exact.count ?? 1} ${subs || exact.deviceClassName}`;
  });
  return html`<li><details open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary><b>${name}</b> <span class="soft">${asks.join(", ")}</span></summary>
    <p><a href=${linkToObject(kindOf(kinds, "resource.k8s.io", "resourceclaims"), claim.metadata.namespace, claim.metadata.name)}>the claim</a></p>
    ${problem && html`<${Problem} error=${problem} />`}
    ${isPast ? html`<${OnlyNow} />` : why ? html`<${WhyNot} why=${why} />` : !problem && html`<p class="soft">Asking the allocator …</p>`}
  </details></li>`;
}

// Why a claim waited at an earlier revision is not kept.
function OnlyNow() {
  const { parts, query } = currentPlace();
  return html`<p class="soft">Why a claim waits is known of now only, not of earlier revisions.
    <a href=${linkTo(parts, { ...query, at: "" })}>Back to now</a></p>`;
}

// Nodes with the same story share it.
function WhyNot({ why }) {
  const stories = new Map();
  for (const node of why.nodes) {
    const key = JSON.stringify([node.fits, node.error, node.claims, node.notes]);
    if (!stories.has(key)) stories.set(key, []);
    stories.get(key).push(node);
  }
  return html`<ul class="stories">${[...stories.values()].map((nodes, i) => html`<li key=${i}>
    <h3>${nodes.slice(0, 4).map((node) => node.node).join(", ")}${nodes.length > 4 ? ` and ${nodes.length - 4} more` : ""}
      ${nodes[0].fits ? html` <span class="good">fits</span>` : html` <span class="bad">${nodes[0].error || "does not fit"}</span>`}</h3>
    ${nodes[0].claims.map((claim) => html`<div key=${claim.claim}>
      ${claim.error && claim.error !== nodes[0].error && html`<p class="bad">${claim.error}</p>`}
      ${claim.requests.map((request) => html`<div key=${request.request} class="request">
        <p>request <b>${request.request}</b>: ${request.fitting} of ${request.asked === "All" ? "all" : request.asked} found</p>
        <ul>${request.reasons.map((reason, j) => html`<li key=${j}><span class="number">${reason.count}</span> ${reason.message}</li>`)}</ul></div>`)}
    </div>`)}
    ${nodes[0].notes.map((note, j) => html`<p key=${j} class="soft">${note}</p>`)}
  </li>`)}</ul>
  ${why.left > 0 && html`<p class="soft">and ${counted(why.left, "more node")}, which were not looked at</p>`}
  ${!why.nodes.length && html`<p class="soft">There are no nodes.</p>`}`;
}
