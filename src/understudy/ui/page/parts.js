// Small parts of which views are made.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

// Return what a source tells by a callback: [value, error]. `follow` begins, and returns what ends it.
export function useFollowed(follow, dependencies) {
  const [state, setState] = useState([null, null]);
  useEffect(() => {
    setState([null, null]);
    return follow((value, error) => setState(([last]) => [error ? last : value, error]));
  }, dependencies);
  return state;
}

// Return what a promise brings, [value, error]; the last value stays until the next one is there.
export function useAsked(ask, dependencies) {
  const [state, setState] = useState([null, null]);
  useEffect(() => {
    let isOver = false;
    const set = (next) => { if (!isOver) setState(next); };
    ask().then((value) => set([value, null]), (error) => set([null, error]));
    return () => { isOver = true; };
  }, dependencies);
  return state;
}

// An error of the server, as it says it.
export function Problem({ error }) {
  return html`<div class="problem" role="alert">
    <strong>${error.code ? `${error.code} ${error.status?.reason ?? ""}` : "No answer"}</strong>
    <span>${String(error.message)}</span>
  </div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

export function Search({ value, onInput, label }) {
  const field = useRef(null);
  useLayoutEffect(() => { // before the first picture: who sees the field may press the key
    const focus = (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  return html`<input ref=${field} class="search" type="search" placeholder=${`${label}  /`} aria-label=${label}
    value=${value} onInput=${(event) => onInput(event.target.value)}
    onKeyDown=${(event) => event.key === "Escape" && event.target.blur()} />`;
}

export function Choice({ label, value, options, onChange }) {
  return html`<label class="choice"><span>${label}</span>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([each, text]) => html`<option key=${each} value=${each} selected=${each === value}>${text}</option>`)}
    </select></label>`;
}

// Views of one thing side by side, as links, so that each has its address.
export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([name, text, link]) => html`<a key=${name} href=${link}
      aria-current=${name === current ? "page" : null}>${text}</a>`)}
  </nav>`;
}

// Ask before something is done that cannot be undone.
export function Confirm({ question, action, onAnswer, problem }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} aria-label=${question} onCancel=${() => onAnswer(false)}>
    <p>${question}</p>
    ${problem && html`<${Problem} error=${problem} />`}
    <div class="buttons">
      <button type="button" onClick=${() => onAnswer(false)}>Cancel</button>
      <button type="button" class="danger" onClick=${() => onAnswer(true)}>${action}</button>
    </div>
  </dialog>`;
}
