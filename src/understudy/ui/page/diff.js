// Shows what has changed in an object.

import { html } from "./vendor/preact.js";
import { linesOf, lineText } from "./yaml.js";
import { pathText } from "./changes.js";

const MOST_LINES = 14; // of one side of a change

// Changed fields: what they were, and what they became.
export function Diff({ changes }) {
  if (!changes.length) return null;
  return html`<ul class="diff">${changes.map(({ path, before, after }) => html`<li key=${path.join("\u0000")}>
    <code>${pathText(path)}</code>
    <${Side} value=${before} as="del" /><${Side} value=${after} as="ins" /></li>`)}</ul>`;
}

function Side({ value, as }) {
  if (value === undefined) return null;
  const lines = typeof value === "object" && value !== null ? linesOf(value).map(lineText) : String(value).split("\n");
  const text = lines.length ? lines.slice(0, MOST_LINES) : [Array.isArray(value) ? "[]" : "{}"];
  const rest = lines.length - text.length;
  const body = text.map((line, i) => html`<span key=${i}>${line}</span>`);
  const more = rest > 0 && html`<span class="soft">… ${rest} more lines</span>`;
  return as === "del" ? html`<del>${body}${more}</del>` : html`<ins>${body}${more}</ins>`;
}
