"""Replay recorded kubectl sessions: the same commands with the same output, errors and exit status.

A session is JSON lines, a head and then commands: `argv` (without the program and the flags that choose the server),
`stdin`, `stdout`, `stderr`, `exit`, and now and then

    env           environment variables of this command
    only          regular expressions: only the lines of stdout that match one of them count
    meanwhile     commands run while this one runs: once it printed `after_lines` lines, or for `after_seconds` as soon
                  as it watches, or twice as many seconds later
    lines         ends the command once it has printed that many lines (its exit status is then null)
    seconds       the longest the command may run

What differs from run to run (uids, times, ages, resource versions, generated names) is masked in both.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

GENERATED = "[bcdfghjklmnpqrstvwxz2456789]{5}"
AGE = r"(?:\d+[ydhms])+"
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
DURATION = re.compile(rf"^{AGE}$|^\d+(?:\.\d+)?m?s$")
HEADER = re.compile(r"^[A-Z][A-Z0-9()/_-]*(?: [A-Z0-9()/_-]+)*(?: {2,}[A-Z][A-Z0-9()/_-]*(?: [A-Z0-9()/_-]+)*)* *$")
VALUED = {"-n", "--namespace", "--as", "--as-group", "--request-timeout", "-v", "--cache-dir", "--context", "--user"}
AGES = {"AGE", "LAST SEEN", "FIRST SEEN"}
MASKS = [
    (re.compile(pattern), masked)
    for pattern, masked in (
        (r"(?m)^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ (\S+?):\d+\]", r"\1<klog> \2]"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d{4}|[+-]\d\d:\d\d)", "<time>"),
        (r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d (?:[+-]\d{4}|\w+)", "<time>"),
        (r'("?resourceVersion"?: ?)"?\d+"?', r"\1<rv>"),
        (r'(\\"resourceVersion\\":\\")\d+', r"\1<rv>"),
        (r'("serverAddress": )"[^"]*"', r"\1<address>"),
        (r"(resourceVersion=)\d+", r"\1<rv>"),
        (r"(Resource Version: +)\d+", r"\1<rv>"),
        (r'("?continue"?: ?)"?[A-Za-z0-9_=-]{8,}"?', r"\1<continue>"),
        (rf"(?m)^(Age: +){AGE}$", r"\1<age>"),
        (r"\b([a-z0-9]+\.[A-Z]\w*)\{.*\}(?=: )", r"\1{<dump>}"),  # a Go structure in a message
        (r"(LIVE|MERGED)-\d+", r"\1-<n>"),
        (r"kubectl-edit-\d+\.(yaml|json)", r"kubectl-edit-<n>.\1"),
        (r"\bv1\.(\d+)\.\d+[\w.+-]*", r"v1.\1.<patch>"),
        (r"\b(?:\d+[dhms])+ \(x(\d+) over (?:\d+[dhms])+\)", r"<age> (x\1 over <age>)"),
        (r"\.[0-9a-f]{16}\b", ".<event>"),
        (r"(?i)\b(port|addr|peer)=\d+", r"\1=<n>"),
    )
]
VERSION_KEY = re.compile(
    r'^(\s*"?(?:gitCommit|buildDate|goVersion|gitTreeState|compiler|platform|gitVersion|kustomizeVersion|'
    r'emulationMajor|emulationMinor|minCompatibilityMajor|minCompatibilityMinor)"?:).*?(,?)$'
)


class Session:
    """Run the commands of one session in order, in one home folder. `watches` counts the server's open watches."""

    def __init__(self, url: str, token: str, kubectl: str, home: Path, watches: Callable[[], int]) -> None:
        self.url, self.home, self.watches = url, home, watches
        self._kubectl = [kubectl, f"--server={url}", f"--token={token}", "--insecure-skip-tls-verify"]
        self._prefixes: set[str] = set()  # of generated names
        path = os.environ.get("PATH", os.defpath)
        self._env = {"PATH": path, "HOME": str(home), "TZ": "UTC", "LANG": "C.UTF-8", "KUBECONFIG": os.devnull}
        self._env["GOGC"] = "off"  # a program that ends soon need not collect garbage

    def differences(self, step: dict[str, Any]) -> list[str]:
        """Return the differences of a command's outcome from the recorded one."""
        return compared(step, self.run(step))

    def run(self, step: dict[str, Any]) -> dict[str, Any]:
        """Run one command and return its masked output."""
        for text in (step.get("stdin") or "", *step["argv"]):
            self._prefixes |= set(re.findall(r'generateName"?: *"?([a-z0-9.-]+)', text))
        watches = self.watches()
        command = Command([*self._kubectl, *step["argv"]], self._env | (step.get("env") or {}))
        command.start(self.home, step.get("stdin") or "")
        during = []
        if inner := step.get("meanwhile"):
            if "after_seconds" in step:
                command.poll(lambda: self.watches() > watches, 2 * step["after_seconds"])
            else:
                command.wait(lambda: len(command.out) >= step.get("after_lines", 1), 15)
            during = [self.run(one) for one in inner]
        lines = max(step["lines"], len(step["stdout"].splitlines())) if "lines" in step else 0
        command.wait(lambda: 0 < lines <= len(command.out), step.get("seconds", 60))
        ended = command.stop()
        mask = Mask(self.url, self._prefixes, step["argv"], step.get("only"))
        out, err = mask.stdout("".join(command.out)), mask.stderr("".join(command.err))
        return {"stdout": out, "stderr": err, "exit": ended, "meanwhile": during}


class Command:
    """Run a program and read its lines as they come."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.argv, self.env = argv, env
        self.out: list[str] = []
        self.err: list[str] = []
        self._changed = threading.Condition()

    def start(self, home: Path, stdin: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self.argv, cwd=home, env=self.env, text=True, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        streams = ((self._process.stdout, self.out), (self._process.stderr, self.err))
        self._reading = len(streams)
        self._readers = [threading.Thread(target=self._read, args=pair) for pair in streams]
        for reader in self._readers:
            reader.start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(stdin)
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it did not care to read

    def _read(self, stream: Any, to: list[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    to.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._reading -= 1
            self._changed.notify_all()

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready` is true, the command ends, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: ready() or not self._reading, seconds)

    def poll(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait like `wait` for a change that makes the command print nothing."""
        until = time.monotonic() + seconds
        while not ready() and time.monotonic() < until and self._reading:
            self.wait(ready, 0.02)

    def stop(self) -> int | None:
        """End the command and return its exit status, or None if it was killed."""
        ended = not self._reading
        if not ended:
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
        for reader in self._readers:
            reader.join()
        return code if ended else None


class Mask:
    """Replace what differs between two runs in the output of one command."""

    def __init__(self, url: str, prefixes: set[str], argv: list[str], only: list[str] | None) -> None:
        self.url, self.argv, self.only = url, argv, only
        longest_first = sorted(prefixes, key=len, reverse=True)
        self._names = [re.compile(rf"{re.escape(prefix)}{GENERATED}\b") for prefix in longest_first]
        self._numbers: dict[str, dict[str, int]] = defaultdict(dict)
        words = [a for i, a in enumerate(argv) if not a.startswith("-") and argv[i - 1 if i else 0] not in VALUED]
        self.verb = words[0] if words else ""
        self.watching = bool({"-w", "--watch", "--watch-only", "--watch=true"} & set(argv))

    def _numbered(self, kind: str) -> Callable[[re.Match[str]], str]:
        seen = self._numbers[kind]
        return lambda match: f"<{kind}:{seen.setdefault(match.group(), len(seen) + 1)}>"

    def text(self, text: str) -> str:
        text = text.replace(self.url, "<server>").replace(self.url.split("//")[1], "<host>")
        text = UUID.sub(self._numbered("uid"), text)
        for name in self._names:
            text = name.sub(self._numbered("name"), text)
        for pattern, masked in MASKS:
            text = pattern.sub(masked, text)
        return text

    def stderr(self, text: str) -> str:
        # Over HTTP/1.1 kubectl's watching may complain, by chance, of having been told to end.
        text = re.sub(r"(?m)^[IWE]\d{4} .* reflector\.go:\d+\].*\n", "", text)
        # A difference of Go structures, over several lines.
        text = re.sub(r"(?m)^[ \u00a0]+core\.\w+\{\n(?:.*\n)*?[ \u00a0]{2}\}$", "  <difference>", text)
        return "\n".join(line.rstrip() for line in self.text(text).splitlines())

    def stdout(self, text: str) -> str:
        if self.only:
            text = "\n".join(line for line in text.splitlines() if any(re.search(p, line) for p in self.only))
        text = self._of_verb(text)
        if "--no-headers" in self.argv:
            text = re.sub(rf"(?m)(?:(?<= )|^){AGE} *(?=   |$)", "<age>", text)
        if "managedFields" in text:
            text = in_one_order(text)
        return tables(self.text(text), self.watching, self.verb)

    def _of_verb(self, text: str) -> str:
        if self.verb == "explain":
            return explained(text)
        if self.verb == "label" and "--list" in self.argv:
            return "\n".join(sorted(text.splitlines()))
        if any(arg.split("=")[0] == "--raw" for arg in self.argv):
            try:
                return json.dumps(json.loads(text), indent=1, sort_keys=True)
            except ValueError:
                return text
        if self.verb == "version":
            lines = [line for line in text.splitlines() if not line.startswith(("Kustomize", "WARNING"))]
            text = "\n".join(VERSION_KEY.sub(r"\1 <any>\2", line) for line in lines)
            return re.sub(r'("minor": "\d+)\+', r"\1", text)  # vendors' builds of kubectl have a "+"
        if self.argv[:2] == ["auth", "whoami"] and not any(arg.startswith("--as") for arg in self.argv):
            text = re.sub(r"(?m)^(Username +).*$", r"\1<user>", text)
            return re.sub(r"(?m)^(?:UID|Groups|Extra:).*\n?", "", text)
        return text


def explained(text: str) -> str:
    """Return the fields and types of an `explain`, without its prose."""
    kept = []
    for line in text.splitlines():
        if re.match(r"(GROUP|KIND|VERSION|FIELD|FIELDS|RESOURCE|DESCRIPTION):", line):
            kept.append(re.sub(r"\s+", " ", line.rstrip()))
        elif match := re.match(r"( +)(\S+)\t<(\S+)>(.*)$", line):
            kept.append(f"{match[1]}{match[2]} <{match[3]}>{match[4].rstrip()}")
        elif re.match(r" +enum: ", line):
            kept.append(line.rstrip())
    return "\n".join(kept)


def in_one_order(text: str) -> str:
    """Sort the entries of managedFields, whose order depends on the second in which they were written."""
    if not text.lstrip().startswith("{"):
        return yaml_in_one_order(text)

    def sort(node: Any) -> None:
        if isinstance(node, dict) and isinstance(node.get("managedFields"), list):
            node["managedFields"].sort(key=lambda e: json.dumps({k: v for k, v in e.items() if k != "time"}))
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            sort(child)

    try:
        whole = json.loads(text)
    except ValueError:
        return text
    sort(whole)
    return json.dumps(whole, indent=4, ensure_ascii=False)


def yaml_in_one_order(text: str) -> str:
    out: list[str] = []
    entries: list[list[str]] = []
    indent = None  # of the list that is being read
    for line in [*text.splitlines(), None]:
        if indent is not None:
            if line is not None and line.startswith(" " * indent + "- "):
                entries.append([line])
                continue
            if line is not None and entries and line.startswith(" " * (indent + 2)):
                entries[-1].append(line)
                continue
            entries.sort(key=lambda entry: [x for x in entry if " time: " not in x])
            out += [x for entry in entries for x in entry]
            entries, indent = [], None
        if line is not None:
            out.append(line)
            if line.strip() == "managedFields:":
                indent = len(line) - len(line.lstrip())
    return "\n".join(out)


def tables(text: str, watching: bool, verb: str) -> str:
    """Lay out tables again, so that the width of a masked cell does not matter."""
    out: list[str] = []
    lines, at, part = text.splitlines(), 0, ""
    while at < len(lines):
        line = lines[at]
        if verb in ("get", "events", "api-resources") and HEADER.match(line) and len(line.split()) > 1:
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            out += table(lines[at:end], watching)
            at = end
            continue
        if verb == "describe":
            part = line if re.match(r"\S", line) else part
            if part.startswith(("Events:", "Non-terminated Pods:")):  # tables with an Age column
                line = re.sub(r"(?<=\S) {2,}(?=\S)", "   ", line)
                line = re.sub(rf"(?<= ){AGE}(?=$|   )", "<age>", line)
                line = re.sub(r"---+", "---", line)
        out.append(line.rstrip())
        at += 1
    return "\n".join(out)


def table(lines: list[str], watching: bool) -> list[str]:
    spans = [(match.start(), match.group()) for match in re.finditer(r"\S+(?: \S+)*", lines[0])]
    starts, heads = [start for start, _ in spans], [head for _, head in spans]
    rows = []
    for line in lines:
        aligned = all(start >= len(line) or start == 0 or line[start - 1] == " " for start in starts)
        if watching or not aligned:
            rows.append([DURATION.sub("<age>", cell) for cell in re.split(r" {2,}", line.strip())])
            continue
        ends = [*starts[1:], len(line) + 1]
        cells = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
        rows.append([DURATION.sub("<age>", c) if h in AGES else c for h, c in zip(heads, cells, strict=True)])
    if watching:
        return ["   ".join(row) for row in rows]
    widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(len(heads))]
    padded = [[c.ljust(widths[i]) if i < len(widths) else c for i, c in enumerate(row)] for row in rows]
    return ["   ".join(row).rstrip() for row in padded]


def compared(recorded: dict[str, Any], live: dict[str, Any]) -> list[str]:
    differences = []
    if recorded.get("exit") != live["exit"]:
        differences.append(f"exit {live['exit']}, want {recorded.get('exit')}")
    for part in ("stdout", "stderr"):
        want, got = (recorded.get(part) or "").splitlines(), live[part].splitlines()
        if want != got:
            at = next((i for i, (w, g) in enumerate(zip(want, got, strict=False)) if w != g), min(len(want), len(got)))
            ends = ["(end)"]
            differences.append(f"{part} line {at + 1}: {(got[at:] or ends)[0]!r}, want {(want[at:] or ends)[0]!r}")
    for want, got in zip(recorded.get("meanwhile", []), live["meanwhile"], strict=False):
        differences += [f"meanwhile {' '.join(want['argv'])}: {line}" for line in compared(want, got)]
    return differences
