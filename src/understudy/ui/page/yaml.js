// Writes objects as YAML, line by line, and says who manages the field on each line.

const PLAIN = /^[A-Za-z_/.][A-Za-z0-9_/.+@ -]*$/;
const RESERVED = /^(true|false|null|yes|no|on|off|y|n|~|\.inf|\.nan)$/i;
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff\ud800-\udfff]/;

function escaped(text) {
  const odd = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, odd);
}

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  const isPlain = PLAIN.test(value) && !RESERVED.test(value) && !value.endsWith(" ") && !/^\.?[\d_.]*(e[\d_]+)?$/i.test(value);
  return isPlain || /^[a-z0-9.-]+\/[A-Za-z0-9._/-]+$/.test(value) ? value : escaped(value);
}

// Return the lines of a text as a block, null for a text that is no block.
function blockOf(text) {
  if (!text.includes("\n") || ODD.test(text) || /^[\s]/.test(text) || /[ \t](\n|$)|\t/.test(text)) return null;
  const body = text.replace(/\n+$/, "");
  const trailing = text.length - body.length;
  const head = trailing === 0 ? "|-" : trailing === 1 ? "|" : "|+";
  return { head, lines: (trailing > 1 ? text.slice(0, -1) : body).split("\n") };
}

const isNested = (value) => typeof value === "object" && value !== null && Object.keys(value).length > 0;
const emptyText = (value) => (Array.isArray(value) ? "[]" : "{}");

// Return the lines of a value: {indent, dash, key, value, path}. A path is a list of keys and indices.
export function linesOf(value) {
  const lines = [];
  const put = (indent, dash, key, text, path) => lines.push({ indent, dash, key, value: text, path });
  function member(indent, dash, key, each, path) {
    if (isNested(each)) {
      put(indent, dash, key, "", path);
      write(each, Array.isArray(each) ? indent + dash.length : indent + dash.length + 2, path);
      return;
    }
    const block = typeof each === "string" ? blockOf(each) : null;
    if (!block) return put(indent, dash, key, typeof each === "object" && each !== null ? emptyText(each) : scalar(each), path);
    put(indent, dash, key, block.head, path);
    for (const line of block.lines) put(line ? indent + dash.length + 2 : 0, "", null, line, path);
  }
  function write(nested, indent, path, firstDash = "") {
    if (Array.isArray(nested)) {
      nested.forEach((each, i) => item(each, indent, [...path, i], i ? "" : firstDash));
      return;
    }
    Object.entries(nested).forEach(([key, each], i) => {
      const dash = i ? "" : firstDash;
      member(indent - dash.length, dash, scalar(key), each, [...path, key]);
    });
  }
  function item(each, indent, path, outer) {
    const dash = `${outer}- `;
    const at = indent - outer.length;
    if (isNested(each)) return write(each, indent + 2, path, dash);
    const block = typeof each === "string" ? blockOf(each) : null;
    put(at, dash, null, block ? block.head : typeof each === "object" && each !== null ? emptyText(each) : scalar(each), path);
    for (const line of block ? block.lines : []) put(line ? indent + 2 : 0, "", null, line, path);
  }
  write(value, 0, []);
  return lines;
}

// Return a line as text.
export function lineText(line) {
  const key = line.key === null ? "" : line.value ? `${line.key}: ` : `${line.key}:`;
  return `${" ".repeat(line.indent)}${line.dash}${key}${line.value}`;
}

// Return an object as YAML.
export function yamlOf(value) {
  return linesOf(value).map((line) => `${lineText(line)}\n`).join("");
}

// Return an object without the managers of its fields.
export function withoutManagers(object) {
  const { managedFields, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

// Return a function from the path of a field to the indices of the entries of managedFields that have it.
export function managersByPath(object) {
  const own = new Map(), whole = new Map(); // of a field itself, and of all that is below it
  const note = (managers, path, index) => {
    const key = JSON.stringify(path);
    managers.set(key, [...(managers.get(key) ?? []), index]);
  };
  function walk(value, fields, path, index) {
    for (const [step, below] of Object.entries(fields)) {
      if (step === ".") {
        note(own, path, index);
        continue;
      }
      const place = placeOf(value, step);
      if (place !== undefined && !Object.keys(below).length) note(whole, [...path, place], index);
      else if (place !== undefined) walk(value[place], below, [...path, place], index);
    }
  }
  (object.metadata?.managedFields ?? []).forEach((entry, index) => walk(object, entry.fieldsV1 ?? {}, [], index));
  return (path) => {
    for (let length = path.length; length; length -= 1) {
      const found = whole.get(JSON.stringify(path.slice(0, length)));
      if (found) return found;
    }
    return own.get(JSON.stringify(path)) ?? [];
  };
}

// Return the key or index that a step of fieldsV1 names in a value; undefined if it is not there.
function placeOf(value, step) {
  if (typeof value !== "object" || value === null) return undefined;
  const rest = step.slice(2);
  if (step.startsWith("f:")) return Object.hasOwn(value, rest) ? rest : undefined;
  if (!Array.isArray(value)) return undefined;
  if (step.startsWith("i:")) return Number(rest) < value.length ? Number(rest) : undefined;
  const wanted = JSON.parse(rest);
  const isWanted = step.startsWith("k:")
    ? (item) => Object.entries(wanted).every(([key, each]) => item?.[key] === each)
    : (item) => JSON.stringify(item) === JSON.stringify(wanted);
  const index = value.findIndex(isWanted);
  return index < 0 ? undefined : index;
}
