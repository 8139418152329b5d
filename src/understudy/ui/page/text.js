// Words and numbers as people read them.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// Return a duration in seconds as kubectl writes ages: "45s", "3m12s", "5h", "12d".
export function duration(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  if (left < 120) return `${left}s`;
  const [i, [unit, size]] = [...UNITS.entries()].find(([, [, each]]) => left >= each * (each === 60 ? 2 : 1));
  const whole = Math.floor(left / size), rest = left - whole * size;
  const next = UNITS[i + 1];
  const more = next && whole < 10 ? Math.floor(rest / next[1]) : 0;
  return more ? `${whole}${unit}${more}${next[0]}` : `${whole}${unit}`;
}

// Return the age of what has a timestamp, at a time in milliseconds, as the server's tables write it; "" without one.
export function ageAt(now, timestamp) {
  return timestamp ? duration((now - Date.parse(timestamp)) / 1000) : "";
}

// Return "1 object", "3 objects".
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// Report whether a text contains all words of a search, in any case.
export function matches(text, search) {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

// Return the time of day of a timestamp, "" for none.
export function clockTime(timestamp) {
  return timestamp ? String(timestamp).slice(11, 19) : "";
}

// Return NAMESPACE/NAME, or NAME of an object without a namespace.
export function nameOf(metadata) {
  return metadata.namespace ? `${metadata.namespace}/${metadata.name}` : String(metadata.name);
}
