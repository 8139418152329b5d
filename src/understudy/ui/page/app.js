// The page: its head, and the view of the place that is in the address bar.

import { html, render, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { LiveSource } from "./source.js";
import { ReportSource } from "./report.js";
import { TimeBar } from "./past.js";
import { currentPlace, kindAt, linkTo, usePlace } from "./place.js";
import { Empty, useFollowed } from "./parts.js";
import { KindList, ObjectTable, Overview } from "./objects.js";
import { Apply, ObjectView } from "./object.js";
import { DevicesView } from "./devices.js";
import { RequestsView } from "./requests.js";

const THEME = "understudy-theme";

function App({ source: present }) {
  const place = usePlace();
  const at = Number(place.query.at) || 0; // the revision that is shown, 0 for now
  const source = useMemo(() => (at ? present.at(at) : present), [present, at]);
  const known = useRef(null);
  const [refused, setRefused] = useState(false);
  const [session, setSession] = useState(0);
  const [served, problem] = useFollowed((tell) => (refused ? () => {} : source.kinds(tell)), [source, session, refused]);
  known.current = served ?? known.current;
  present.refused = () => setRefused(true);
  const view = place.parts[0] ?? "objects";
  useEffect(() => {
    document.title = [...place.parts.slice(2), "understudy"].join(" · ");
    scrollTo(0, 0);
  }, [place.parts.join("/")]);
  if (refused) {
    const enter = (token) => { present.signIn(token); setRefused(false); setSession(session + 1); };
    return html`<${SignIn} onToken=${enter} again=${session > 0} />`;
  }
  return html`<${Head} source=${source} served=${known.current} problem=${problem} view=${view} at=${at} />
    ${served ? html`<${View} source=${source} served=${served} place=${place} view=${view} />`
      : html`<main><p class="wait">${problem ? String(problem.message) : "Asking the server …"}</p></main>`}`;
}

function Head({ source, served, problem, view, at }) {
  const [theme, setTheme] = useState(() => localStorage.getItem(THEME) ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
  }, [theme]);
  const next = { auto: "dark", dark: "light", light: "auto" }[theme];
  const state = problem ? ["off", "no answer"] : source.isLive ? ["on", "live"] : ["still", at ? "the past" : "a report"];
  const { parts, query } = currentPlace();
  const views = [["objects", "Objects"], ["devices", "Devices"], ["requests", "Requests"]];
  return html`<header class="top">
    <a class="brand" href=${linkTo([])}><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="9" cy="12" r="7" /><circle cx="15" cy="12" r="7" /></svg>understudy</a>
    <nav aria-label="Views">${views.map(([name, text]) => html`<a key=${name} href=${linkTo([name])}
      aria-current=${name === view ? "page" : null}>${text}</a>`)}</nav>
    <span class="release">${served && `Kubernetes ${served.release}`}</span>
    <span class=${`state ${state[0]}`} role="status">${state[1]}</span>
    ${served && !at && html`<a class="quiet" href=${linkTo(parts, { ...query, at: String(served.revision) })}>Go back in time</a>`}
    <button type="button" class="quiet" onClick=${() => setTheme(next)} aria-label=${`Colors: ${theme}. Change to ${next}`}>
      <svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="8" /><path d="M12 4a8 8 0 0 1 0 16z" /></svg></button>
    ${at > 0 && html`<${TimeBar} at=${at} served=${served} />`}
  </header>`;
}

function View({ source, served, place, view }) {
  const { kinds } = served;
  if (view === "apply" && source.isLive) return html`<main><${Apply} key=${place.query.kind} source=${source} kinds=${kinds} query=${place.query} /></main>`;
  if (view === "devices") return html`<main class="wide"><${DevicesView} source=${source} kinds=${kinds} query=${place.query} /></main>`;
  if (view === "requests") return html`<main class="wide"><${RequestsView} source=${source.present} kinds=${kinds} query=${place.query} /></main>`;
  const kind = kindAt(kinds, place.parts);
  if (view !== "objects" || (place.parts.length > 1 && !kind)) return html`<main><${Empty}>There is no such page.</${Empty}></main>`;
  const key = place.parts.join("/");
  return html`<div class="columns"><${KindList} kinds=${kinds} current=${kind} />
    <main>${place.parts.length >= 5 ? html`<${ObjectView} key=${key} source=${source} kind=${kind} kinds=${kinds} place=${place} />`
      : kind ? html`<${ObjectTable} key=${key} source=${source} kind=${kind} query=${place.query} />`
      : html`<${Overview} source=${source} kinds=${kinds} served=${served} />`}</main></div>`;
}

// The server asks who somebody is: a token is kept until the tab is closed.
function SignIn({ onToken, again }) {
  const [token, setToken] = useState("");
  const enter = (event) => { event.preventDefault(); onToken(token.trim()); };
  return html`<main class="signin"><h1>understudy</h1>
    <p>This server asks who you are. Give a bearer token: of <code>--token-auth-file</code>, or of a service account.</p>
    ${again && html`<p class="refused" role="alert">The server does not know this token.</p>`}
    <form onSubmit=${enter}><label>Token <input type="password" autocomplete="off" value=${token} onInput=${(event) => setToken(event.target.value)} /></label>
      <button class="primary" disabled=${!token.trim()}>Go on</button></form></main>`;
}

const root = document.getElementById("app"), report = document.getElementById("report");

function show(source) {
  root.replaceChildren();
  render(html`<${App} source=${source} />`, root);
}

if (report) ReportSource.of(report.textContent).then(show).catch((why) => root.replaceChildren(`The report cannot be read: ${why}`));
else show(new LiveSource());
