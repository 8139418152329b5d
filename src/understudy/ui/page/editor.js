// An editor of manifests: the server judges them while they are written, and its errors stand at their lines.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { Problem } from "./parts.js";

const QUIET = 250; // milliseconds without a change until the server is asked
const NAMED = /(?:unknown|duplicate) field "([^"]*)"|Go struct field \w+\.(\S+) of type/g;

// Return the fields that an error names, with what is wrong there.
export function complaints(error) {
  const causes = error.status?.details?.causes ?? [];
  if (causes.length) return causes.map((cause) => ({ field: cause.field ?? "", message: cause.message ?? "" }));
  const named = [...error.message.matchAll(NAMED)].map((match) => ({ field: match[1] ?? match[2], message: match[1] ? match[0] : error.message }));
  return named.length ? named : [{ field: "", message: error.message }];
}

// An editor. `target(about)` returns {method, path, type, query} of the request that stores a manifest, or throws an
// Error that says why there is none; `onStored` gets the object that the server has stored.
export function Editor({ source, text: first, target, action, onStored, onLeave }) {
  const [text, setText] = useState(first);
  const [verdict, setVerdict] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = useRef(null), gutter = useRef(null);

  async function ask(dryRun, signal) {
    const about = await source.manifest(text);
    if (about.problem) return { notes: [{ line: about.line, message: about.problem }] };
    let request;
    try {
      request = target(about);
    } catch (why) {
      return { notes: [{ line: 1, message: why.message }] };
    }
    const query = { fieldValidation: "Strict", ...request.query, ...(dryRun ? { dryRun: "All" } : {}) };
    try {
      const response = await source.send(request.method, request.path, { query, body: text, type: request.type, signal });
      return { object: await response.json(), warnings: warningsOf(response), notes: [] };
    } catch (error) {
      if (error.code === undefined) throw error;
      const found = complaints(error);
      const { lines = [] } = await source.manifest(text, found.map((each) => each.field));
      return { error, notes: found.map((each, i) => ({ ...each, line: lines[i] || 1 })) };
    }
  }

  useEffect(() => {
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setVerdict(await ask(true, controller.signal));
      } catch (error) {
        if (!controller.signal.aborted) setVerdict({ error, notes: [] });
      }
    }, verdict ? QUIET : 0);
    return () => { clearTimeout(timer); controller.abort(); };
  }, [text]);

  async function store() {
    setBusy(true);
    try {
      const answer = await ask(false);
      setVerdict(answer);
      if (answer.object) onStored(answer.object);
    } catch (error) {
      setVerdict({ error, notes: [] });
    }
    setBusy(false);
  }

  const lines = useMemo(() => text.split("\n"), [text]);
  const wrong = new Set((verdict?.notes ?? []).map((note) => note.line));
  const goTo = (line) => {
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    field.current.focus();
    field.current.setSelectionRange(start, start + lines[line - 1].length);
    field.current.scrollTop = Math.max(0, (line - 6) * 20);
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !verdict?.notes.length) store();
    if (event.key === "Escape") onLeave();
  };
  return html`<div class="editor">
    <div class="paper">
      <pre class="gutter" ref=${gutter} aria-hidden="true">${lines.map((_, i) =>
        html`<span key=${i} class=${wrong.has(i + 1) ? "bad" : ""}>${i + 1}</span>`)}</pre>
      <textarea ref=${field} aria-label="Manifest" spellcheck=${false} autocapitalize="off" wrap="off" value=${text}
        aria-describedby="verdict" onKeyDown=${keys} onInput=${(event) => setText(event.target.value)}
        onScroll=${(event) => { gutter.current.scrollTop = event.target.scrollTop; }}></textarea>
    </div>
    <div id="verdict" class="verdict" aria-live="polite">
      <${Verdict} verdict=${verdict} goTo=${goTo} />
    </div>
    <div class="buttons">
      <button type="button" onClick=${onLeave}>Cancel</button>
      <button type="button" class="primary" disabled=${busy || !verdict?.object} onClick=${store}>${action}</button>
      <span class="soft">or Ctrl-Enter</span>
    </div>
  </div>`;
}

function Verdict({ verdict, goTo }) {
  if (!verdict) return html`<p class="soft">The server is asked …</p>`;
  const { error, object, notes, warnings = [] } = verdict;
  return html`
    ${object && html`<p class="fine">The server would store this.</p>`}
    ${warnings.map((warning) => html`<p key=${warning} class="warns">${warning}</p>`)}
    ${error && !notes.length && html`<${Problem} error=${error} />`}
    ${error && notes.length > 0 && html`<p class="refused">${error.code} ${error.status?.reason ?? ""}</p>`}
    ${notes.length > 0 && html`<ol class="notes">${notes.map((note, i) => html`<li key=${i}>
      <button type="button" onClick=${() => goTo(note.line)}><span class="line">line ${note.line}</span>
        ${note.field && html`<code>${note.field}</code>`}<span>${note.message}</span></button></li>`)}</ol>`}`;
}

function warningsOf(response) {
  const header = response.headers.get("Warning") ?? "";
  return [...header.matchAll(/299 - "((?:[^"\\]|\\.)*)"/g)].map((match) => match[1].replace(/\\(.)/g, "$1"));
}
