// Where the page has its data from when it is a file: from the file itself.

import { ageAt, nameOf } from "./text.js";

const keyOf = (kind) => `${kind.group}/${kind.resource}`;

// Return the value at a path such as "metadata.name", undefined if there is none.
const valueAt = (object, path) => path.split(".").reduce((value, name) => value?.[name], object);

// What a server held when the report was written; `present` is the source of that, if this one is of an earlier revision.
export class ReportSource {
  constructor(data, present = null) {
    this.isLive = false;
    this.present = present ?? this;
    this.data = data;
    this.now = Date.parse(data.now);
  }

  // Return the source of data as it is in a file: JSON that gzip has packed, as base64.
  static async of(text) {
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new ReportSource(await new Response(stream).json());
  }

  // Return the source of what the server held at an earlier revision.
  at(revision) {
    const tables = {};
    const kinds = this.data.kinds.map((kind) => {
      const rows = this.#lives(kind).map((life) => life.findLast((version) => version.revision <= revision))
        .filter((version) => version && !version.deleted).map(({ row }) => row);
      tables[keyOf(kind)] = { columns: this.data.tables[keyOf(kind)]?.columns, rows };
      return { ...kind, count: rows.length };
    });
    return new ReportSource({ ...this.data, kinds, tables }, this);
  }

  // Return the revisions of an object, as a server tells them.
  async life(kind, namespace, name) {
    const found = this.#lives(kind).find(([{ row }]) => nameOf(row.object.metadata) === nameOf({ namespace, name }));
    const { since, requests } = this.data.past;
    const told = ({ row, ...version }) => ({ ...version, object: row.object, request: requests[version.revision] ?? null });
    return { since, versions: (found ?? []).map(told) };
  }

  // Return the revisions of each object of a kind, the oldest first: [{revision, deleted, row}]
  #lives(kind) {
    const { rows = [], deleted = [] } = this.data.past.tables[keyOf(kind)] ?? {};
    const versions = new Map(); // by names, and there by revisions
    const put = (name, revision, version) => {
      if (!versions.has(name)) versions.set(name, new Map());
      versions.get(name).set(revision, version);
    };
    for (const row of [...rows, ...(this.data.tables[keyOf(kind)]?.rows ?? [])]) {
      put(nameOf(row.object.metadata), Number(row.object.metadata.resourceVersion), { deleted: false, row });
    }
    for (const [revision, namespace, name] of deleted) put(nameOf({ namespace, name }), revision, { deleted: true, row: null });
    return [...versions.values()].map((each) => {
      let last = null;
      const sorted = [...each].sort(([a], [b]) => a - b).map(([revision, version]) => ({ revision, ...version }));
      return sorted.map((version) => ({ ...version, row: (last = version.row ?? last) })).filter(({ row }) => row);
    });
  }

  get address() {
    return this.data.url;
  }

  kinds(callback) {
    callback(this.data, null);
  }

  requests(callback) {
    callback(this.data.requests, null);
  }

  watches(callback) {
    callback(this.data.watches, null);
  }

  async request(number) {
    const found = this.data.requests.details[number];
    if (!found) throw new Error("only the last requests are told in full in a report");
    return found;
  }

  // Call a function with a table, as that of a server.
  table(kind, { namespace = "", fieldSelector = "" }, callback) {
    const { columns = [], rows = [] } = this.data.tables[keyOf(kind)] ?? {};
    const [, path, wanted] = /^([^=]*)=(.*)$/s.exec(fieldSelector) ?? [];
    callback({
      columns,
      rows: rows.filter(({ object }) => (!namespace || object.metadata.namespace === namespace)
        && (!path || valueAt(object, path) === wanted)),
    }, null);
  }

  // Return the objects above and below the one with a uid, with the uids of their owners; itself as well.
  async owners(uid) {
    const everything = new Map(this.#objects().map((each) => [each.uid, each]));
    const owned = (one) => [...everything.values()].filter((each) => each.owners.includes(one.uid));
    const around = new Map();
    for (const neighbors of [(one) => one.owners.map((each) => everything.get(each)).filter(Boolean), owned]) {
      const todo = [everything.get(uid)], seen = new Set();
      for (const each of todo) {
        if (!each || seen.has(each)) continue;
        seen.add(each);
        around.set(each.uid, each);
        todo.push(...neighbors(each));
      }
    }
    return [...around.values()];
  }

  #objects() {
    return this.data.kinds.flatMap((kind) => (this.data.tables[keyOf(kind)]?.rows ?? []).map(({ object: { metadata } }) => ({
      uid: metadata.uid, group: kind.group, resource: kind.resource, kind: kind.kind,
      namespace: metadata.namespace ?? "", name: metadata.name, owners: (metadata.ownerReferences ?? []).map((owner) => owner.uid),
    })));
  }

  async explanation(claim) {
    const found = this.data.explanations[claim];
    if (!found) throw new Error("only the first claims that wait are explained in a report");
    return found;
  }

  age(timestamp) {
    return ageAt(this.now, timestamp);
  }
}
