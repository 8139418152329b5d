// Where the page has its data from: the server, by its API, followed by watches.

import { ageAt } from "./text.js";
import { PastSource } from "./past.js";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const TOKEN = "understudy-token";
const SOON = 40; // milliseconds until changes are shown, several at once
const OFTEN = 400; // milliseconds until a server is asked what has come meanwhile, of what it has no watch
const MOST_REQUESTS = 10_000;
const AGAIN = 1000; // milliseconds until a server that did not answer is asked again

// An answer that is an error, as the server says it; `status` is the metav1.Status, if it is one.
export class ServerError extends Error {
  constructor(code, status, text) {
    super(status?.message ?? text);
    this.code = code;
    this.status = status;
  }
}

// Return the path of a kind, of a namespace's objects of it, or of one object.
export function pathOf(kind, namespace = "", name = "") {
  const root = kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`;
  const parts = [root];
  if (kind.namespaced && namespace) parts.push("namespaces", encodeURIComponent(namespace));
  parts.push(kind.resource);
  if (name) parts.push(encodeURIComponent(name));
  return parts.join("/");
}

const queryOf = ({ full, fieldSelector = "" }) => ({ includeObject: full ? "Object" : "", fieldSelector });
const queryText = (query) => new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();

// The server that has sent the page.
export class LiveSource {
  constructor() {
    this.isLive = true;
    this.root = new URL("..", location.href).pathname.replace(/\/$/, "");
    this.ahead = 0; // milliseconds of the server's clock before the browser's
    this.refused = () => {};
  }

  get now() {
    return Date.now() + this.ahead;
  }

  get address() {
    return location.origin;
  }

  get present() {
    return this;
  }

  // Return the source of what the server held at an earlier revision.
  at(revision) {
    return new PastSource(this, revision);
  }

  signIn(token) {
    sessionStorage.setItem(TOKEN, token);
  }

  // Send a request; return the response. Raises ServerError.
  async send(method, path, { query = {}, body, type, accept = "application/json", signal } = {}) {
    const headers = { Accept: accept };
    const token = sessionStorage.getItem(TOKEN);
    if (token) headers.Authorization = `Bearer ${token}`;
    if (type) headers["Content-Type"] = type;
    const text = queryText(query);
    const url = `${this.root}${path}${text ? `?${text}` : ""}`;
    const response = await fetch(url, { method, headers, body, signal, cache: "no-store", redirect: "error" });
    if (response.ok) return response;
    const answer = await response.text();
    let status = null;
    try {
      status = JSON.parse(answer);
    } catch {
      status = null; // plain text, which is shown as it is
    }
    if (response.status === 401 && token === sessionStorage.getItem(TOKEN)) this.refused();
    throw new ServerError(response.status, status?.kind === "Status" ? status : null, answer || response.statusText);
  }

  async json(method, path, options) {
    return (await this.send(method, path, options)).json();
  }

  // Call a function with the kinds of the server, now and whenever their numbers may have changed.
  kinds(callback) {
    return this.#asking("/ui/data/kinds", () => ({}), (answer, error) => {
      if (answer) this.ahead = Date.parse(answer.now) - Date.now();
      callback(answer, error);
    });
  }

  // Call a function with the requests that the server has answered, now and as they come: {rows, withheld}, the oldest first.
  requests(callback) {
    let known = { rows: [], withheld: 0, last: 0 }, isStale = true;
    return this.#asking("/ui/data/requests", () => ({ after: known.last }), (answer, error) => {
      isStale ||= !answer;
      if (!answer) return callback(null, error);
      if (answer.last < known.last) known = { rows: [], withheld: 0, last: 0 }; // of another server at the same address
      else {
        const kept = known.rows.filter(({ number }) => number >= answer.oldest);
        isStale ||= answer.last > known.last || kept.length < known.rows.length;
        known = { rows: [...kept, ...answer.rows].slice(-MOST_REQUESTS), withheld: known.withheld + answer.withheld, last: answer.last };
      }
      if (isStale) callback(known, null);
      isStale = false;
    });
  }

  // Call a function with the watches that are open, again and again: {rows, withheld}.
  watches(callback) {
    return this.#asking("/ui/data/watches", () => ({}), callback);
  }

  request(number) {
    return this.json("GET", "/ui/data/request", { query: { number } });
  }

  // Ask for data again and again; call a function with each answer, or with an error.
  #asking(path, queryNow, callback) {
    return this.#repeatedly(async (signal) => {
      try {
        callback(await this.json("GET", path, { query: queryNow(), signal }), null);
      } catch (error) {
        if (!signal.aborted) callback(null, error);
      }
      await pause(OFTEN, signal);
    });
  }

  // Return a table: {columns, rows: [{cells, object}], resourceVersion}. `more` are parameters of the list.
  async list(kind, options, more, signal) {
    const table = await this.json("GET", pathOf(kind, options.namespace), { query: { ...queryOf(options), ...more }, accept: TABLE, signal });
    return { columns: table.columnDefinitions ?? [], rows: table.rows ?? [], resourceVersion: table.metadata?.resourceVersion ?? "" };
  }

  // Call a function with a table, now and after each change.
  // `full` asks for whole objects, `fieldSelector` for some of them.
  table(kind, options, callback) {
    const path = pathOf(kind, options.namespace), query = queryOf(options);
    const rows = new Map();
    let columns = [], timer = 0;
    const tell = () => {
      timer = 0;
      callback({ columns, rows: [...rows.values()] }, null);
    };
    const put = (row) => rows.set(row.object.metadata.uid ?? JSON.stringify(row.cells), row);
    const list = async (signal) => {
      const listed = await this.list(kind, options, {}, signal);
      columns = listed.columns;
      rows.clear();
      listed.rows.forEach(put);
      tell();
      return listed.resourceVersion;
    };
    const change = (event) => {
      for (const row of event.object.rows ?? []) {
        if (event.type === "DELETED") rows.delete(row.object.metadata.uid);
        else if (event.type !== "BOOKMARK") put(row);
      }
      timer ||= setTimeout(tell, SOON);
    };
    // A watch that ends is not resumed: after a reset the server has other objects at the same revisions.
    const stop = this.#repeatedly(async (signal) => {
      try {
        const resourceVersion = await list(signal);
        if (!kind.verbs.includes("watch")) return pause(AGAIN * 5, signal);
        const response = await this.send("GET", path, { query: { ...query, watch: "true", resourceVersion }, accept: TABLE, signal });
        await eachLine(response, (line) => change(JSON.parse(line)));
        await pause(SOON, signal);
      } catch (error) {
        if (signal.aborted) return;
        callback(null, error);
        await pause(AGAIN, signal);
      }
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }

  // Repeat a step until the function that is returned is called, but not while nobody sees the page.
  #repeatedly(step) {
    let controller = null, ended = false;
    const run = async () => {
      const own = (controller = new AbortController());
      while (!own.signal.aborted) await step(own.signal);
    };
    const turn = () => {
      if (document.hidden) controller?.abort();
      else if (!controller || controller.signal.aborted) run();
    };
    document.addEventListener("visibilitychange", turn);
    turn();
    return () => {
      if (ended) return;
      ended = true;
      document.removeEventListener("visibilitychange", turn);
      controller?.abort();
    };
  }

  // Return the revisions of an object: {since, versions: [{revision, deleted, object, request}]}, the oldest first.
  life(kind, namespace, name) {
    return this.json("GET", "/ui/data/life", { query: { path: decodeURIComponent(pathOf(kind, namespace, name)) } });
  }

  owners(uid) {
    return this.json("GET", "/ui/data/owners", { query: { uid } });
  }

  // Return why a claim gets no devices, node by node.
  explanation(claim) {
    return this.json("GET", "/ui/data/explanation", { query: { claim } });
  }

  manifest(text, fields = []) {
    return this.json("POST", "/ui/data/manifest", { body: JSON.stringify({ text, fields }), type: "application/json" });
  }

  age(timestamp) {
    return ageAt(this.now, timestamp);
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

async function eachLine(response, callback) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.filter(Boolean).forEach(callback);
  }
}
