"""Validation of probes and lifecycle hooks of containers."""

from __future__ import annotations

import re
from collections.abc import Callable

from understudy.kinds.common.formats import choice, header_texts, invalid_texts, nonnegative, port
from understudy.kinds.core.pods.pod_options import Options
from understudy.machinery.releases.version import V1_32
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required

_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROTOCOLS, _GRPC_MODES = ("HTTP1", "HTTP2"), ("Plaintext", "TLS")
_GRACE = "terminationGracePeriodSeconds"


def _exec(action: Obj, path: Path) -> Errors:
    return [] if action.get("command") else [required(path.child("command"))]


def _http_get(action: Obj, path: Path) -> Errors:
    errors = [] if action.get("path") else [required(path.child("path"))]
    errors += port(action.get("port"), path.child("port"))
    errors += choice(action.get("scheme", ""), ("HTTP", "HTTPS"), path.child("scheme"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        errors += invalid_texts(header_texts(name), name, path.child("httpHeaders"))
    return errors + _protocol(action, path)


def _protocol(action: Obj, path: Path) -> Errors:
    protocol, where = action.get("protocol"), path.child("protocol")
    if protocol is None:
        return []
    if protocol not in _PROTOCOLS:
        return [not_supported(where, protocol, _PROTOCOLS)]
    if protocol == "HTTP2" and action.get("scheme") != "HTTP":
        return [invalid(where, protocol, "is only supported with HTTP (H2C)")]
    if protocol == "HTTP2" and action.get("host"):
        return [invalid(path.child("host"), action["host"], 'must be empty when `protocol` is "HTTP2"')]
    return []


def _grpc(action: Obj, path: Path) -> Errors:
    mode, errors = action.get("mode"), _port(action, path)
    if mode is not None and mode not in _GRPC_MODES:
        errors.append(not_supported(path.child("mode"), mode, _GRPC_MODES))
    return errors


def _port(action: Obj, path: Path) -> Errors:
    return port(action.get("port"), path.child("port"))


_ACTIONS: dict[str, Callable[[Obj, Path], Errors]] = {
    "exec": _exec,
    "httpGet": _http_get,
    "tcpSocket": _port,
    "grpc": _grpc,
}


def _handler(handler: Obj, grace: int | None, path: Path, opts: Options) -> Errors:
    """Check a handler, which has exactly one action (upstream: `validateHandler`)."""
    present = [name for name in (*_ACTIONS, "sleep") if handler.get(name) is not None]
    if not present:
        return [required(path, "must specify a handler type")]
    first, here = present[0], path.child(present[0])
    errors = _sleep(handler, grace, here, opts) if first == "sleep" else _ACTIONS[first](handler[first], here)
    return errors + [forbidden(path.child(name), "may not specify more than 1 handler type") for name in present[1:]]


def _sleep(handler: Obj, grace: int | None, path: Path, opts: Options) -> Errors:
    seconds = handler["sleep"].get("seconds", 0)
    if grace is None or (0 if opts.zero_sleep else 1) <= seconds <= grace:
        return []
    text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    if not opts.zero_sleep:
        text = f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace})"
        if opts.version >= V1_32:
            text += ". Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
    return [invalid(path, seconds, text)]


def probes(container: Obj, grace: int | None, path: Path, opts: Options) -> Errors:
    """Check the three probes of a container."""
    errors: Errors = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        here = path.child(name)
        errors += _probe(probe, grace, here, opts)
        if name == "readinessProbe":
            if probe.get(_GRACE) is not None:
                errors.append(invalid(here.child(_GRACE), probe[_GRACE], "must not be set for readinessProbes"))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(here.child("successThreshold"), probe.get("successThreshold", 0), "must be 1"))
    return errors


def _probe(probe: Obj, grace: int | None, path: Path, opts: Options) -> Errors:
    errors = _handler(probe, grace, path, opts)
    for name in _NUMBERS:
        errors += nonnegative(probe.get(name), path.child(name))
    if probe.get(_GRACE) is not None and probe[_GRACE] <= 0:
        errors.append(invalid(path.child(_GRACE), probe[_GRACE], "must be greater than 0"))
    return errors


def lifecycle(container: Obj, grace: int | None, path: Path, opts: Options, system: str | None) -> Errors:
    """Check the hooks and the stop signal of a container; `path` is the path of its lifecycle."""
    hooks = container.get("lifecycle") or {}
    errors: Errors = []
    for name in ("postStart", "preStop"):
        if hooks.get(name) is not None:
            errors += _handler(hooks[name], grace, path.child(name), opts)
    if hooks.get("stopSignal") is not None:
        errors += _stop_signal(hooks["stopSignal"], path.child("stopSignal"), system)
    return errors


_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")
_NAMED_SIGNALS = re.findall(
    r"\w+",
    """ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS
    TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ""",
)
_REAL_TIME_SIGNALS = [f"RTMIN+{number}" for number in range(1, 16)] + [f"RTMAX-{number}" for number in range(1, 15)]
_LINUX_SIGNALS = tuple(sorted(f"SIG{name}" for name in (*_NAMED_SIGNALS, *_REAL_TIME_SIGNALS)))
_SIGNALS = {"linux": _LINUX_SIGNALS, "windows": _WINDOWS_SIGNALS}


def _stop_signal(signal: str, path: Path, system: str | None) -> Errors:
    """Check the signal that stops a container, which depends on the operating system (upstream:
    `validateStopSignal`)."""
    if system is None:
        return [forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    allowed = _SIGNALS.get(system, (signal,))
    return [] if signal in allowed else [not_supported(path, signal, allowed)]
