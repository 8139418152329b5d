// What a server held at an earlier revision, and the bar to choose one.

import { html } from "./vendor/preact.js";
import { changeQuery, currentPlace, linkTo } from "./place.js";

// A server as it was at a revision: the functions of a source, without those that change anything.
export class PastSource {
  constructor(present, revision) {
    this.isLive = false;
    this.present = present;
    this.revision = revision;
  }

  get now() {
    return this.present.now;
  }

  kinds(callback) {
    return this.#once((signal) => this.present.json("GET", "/ui/data/kinds", { query: { at: this.revision }, signal }), callback);
  }

  // Call a function with a table: a list of exactly that revision, which the API has.
  table(kind, options, callback) {
    const exactly = { resourceVersion: this.revision, resourceVersionMatch: "Exact" };
    return this.#once((signal) => this.present.list(kind, options, exactly, signal), callback);
  }

  owners(uid) {
    return this.present.json("GET", "/ui/data/owners", { query: { uid, at: this.revision } });
  }

  age(timestamp) {
    return this.present.age(timestamp);
  }

  #once(ask, callback) {
    const controller = new AbortController(), { signal } = controller;
    ask(signal).then((answer) => callback(answer, null), (error) => {
      if (!signal.aborted) callback(null, error);
    });
    return () => controller.abort();
  }
}

// The revision that is shown, and ways to others.
export function TimeBar({ at, served }) {
  const newest = Math.max(served?.revision ?? at, at), oldest = Math.min(served?.oldest ?? at, at);
  const go = (revision) => changeQuery({ at: String(Math.min(newest, Math.max(oldest, Math.trunc(revision) || oldest))) });
  const { parts, query } = currentPlace();
  return html`<section class="timebar" aria-label="An earlier revision">
    <b>As it was at revision ${at.toLocaleString("en")}</b>
    <button type="button" aria-label="One revision earlier" disabled=${at <= oldest} onClick=${() => go(at - 1)}>‹</button>
    <input type="range" aria-label="Revision" min=${oldest} max=${newest} value=${at} onChange=${(event) => go(Number(event.target.value))} />
    <button type="button" aria-label="One revision later" disabled=${at >= newest} onClick=${() => go(at + 1)}>›</button>
    <a class="button" href=${linkTo(parts, { ...query, at: "" })}>Back to now</a>
  </section>`;
}
