"""The options of a server that say what it logs of requests, and where. Upstream: `AuditOptions`."""

from __future__ import annotations

import os
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.apiserver.authentication.options import flag
from understudy.apiserver.server.filters.audit.batching import BATCH, BLOCKING, MODES, BackendOptions, Batching
from understudy.apiserver.server.options.values import nanoseconds
from understudy.machinery.types import Obj, dataclass

if TYPE_CHECKING:
    from understudy.admission.generic_webhook import Endpoint
    from understudy.apiserver.permissions.audit.policy import Policy

PathLike = str | os.PathLike[str]
FORMATS = ("legacy", "json")
VERSION = "audit.k8s.io/v1"
LARGEST_EVENT, LARGEST_BATCH = 100 * 1024, 10 * 1024 * 1024  # bytes


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AuditOptions:
    """The options that say what is logged of requests. Raises ValueError for options that make no sense.

    audit_policy_file       an audit.k8s.io/v1 Policy: which requests are logged, and how much of them
    audit_policy            the same as an object, or a level for every request, such as "Metadata"; only in Python
    audit_log_path          the file of the log, "-" for standard output; nothing is written without a policy
    audit_log_format        "json", an event a line, or "legacy", a text a line
    audit_log_maxsize       megabytes after which a file is moved away: 100; 0 for never, but for 100 before 1.37
    audit_log_maxbackup, audit_log_maxage
                            how many such files are kept, and for how many days; 0 for all. 100 and 366, 0 before 1.37
    audit_log_compress      whether they are compressed (gzip)
    audit_webhook_config_file
                            a kubeconfig of a server to which events are sent, as EventLists
    audit_webhook_initial_backoff
                            how long to wait after the first failure; five times in all an EventList is sent
    audit_log_mode, audit_webhook_mode
                            "blocking": answers wait until their events are written. "batch": they do not. With
                            "blocking-strict" a request whose first event is not written is answered with 500
    audit_log_batch_buffer_size, audit_webhook_batch_buffer_size
                            events that may wait with "batch"; others are lost
    audit_log_batch_max_size, audit_webhook_batch_max_size, audit_log_batch_max_wait, audit_webhook_batch_max_wait
                            events that are written at once, and how long they wait for others ("30s")
    audit_log_batch_throttle_enable, audit_webhook_batch_throttle_enable, audit_log_batch_throttle_qps,
    audit_webhook_batch_throttle_qps, audit_log_batch_throttle_burst, audit_webhook_batch_throttle_burst
                            whether there is a limit to batches, how many a second, and how many at once
    audit_log_truncate_enabled, audit_webhook_truncate_enabled, audit_log_truncate_max_event_size,
    audit_webhook_truncate_max_event_size, audit_log_truncate_max_batch_size, audit_webhook_truncate_max_batch_size
                            whether events that have more bytes lose their objects, and the bytes of a batch, of which
                            the first limit leaves none
    audit_log_version, audit_webhook_version
                            "audit.k8s.io/v1"
    """

    audit_policy_file: PathLike | None = field(
        default=None, metadata=flag("which requests are logged, an audit.k8s.io/v1 Policy (default: none)", "PATH")
    )
    audit_policy: PathLike | Obj | None = None
    audit_log_path: PathLike | None = field(
        default=None, metadata=flag("where requests are logged, - for standard output", "PATH")
    )
    audit_log_format: str = field(default="json", metadata=flag("json or legacy (default: %(default)s)", "FORMAT"))
    audit_log_version: str = field(
        default=VERSION, metadata=flag("the version of events (default: %(default)s)", "VERSION")
    )
    audit_log_maxage: int | None = field(
        default=None,
        metadata=flag("days for which old files of the log are kept, 0 for ever (default: 366; before 1.37 0)", "DAYS"),
    )
    audit_log_maxbackup: int | None = field(
        default=None,
        metadata=flag("how many old files of the log are kept, 0 for all (default: 100; before 1.37 0)", "FILES"),
    )
    audit_log_maxsize: int | None = field(
        default=None,
        metadata=flag("megabytes of a file of the log, 0 for any, before 1.37 for 100 (default: 100)", "MEGABYTES"),
    )
    audit_log_compress: bool = field(default=False, metadata=flag("compress old files of the log", "BOOL"))
    audit_log_mode: str = field(
        default=BLOCKING, metadata=flag(f"how events are written: {', '.join(MODES)} (default: %(default)s)", "MODE")
    )
    audit_log_batch_buffer_size: int = field(
        default=10000, metadata=flag("events that may wait to be written (default: %(default)s)", "EVENTS")
    )
    audit_log_batch_max_size: int = field(
        default=1, metadata=flag("events that are written at once (default: %(default)s)", "EVENTS")
    )
    audit_log_batch_max_wait: str = field(
        default="0s", metadata=flag("how long an event waits for others (default: %(default)s)", "DURATION")
    )
    audit_log_batch_throttle_enable: bool = field(
        default=False, metadata=flag("limit how often events are written", "BOOL")
    )
    audit_log_batch_throttle_qps: float = field(
        default=0.0, metadata=flag("batches a second (default: %(default)s)", "QPS")
    )
    audit_log_batch_throttle_burst: int = field(
        default=0, metadata=flag("batches at once (default: %(default)s)", "BATCHES")
    )
    audit_log_truncate_enabled: bool = field(
        default=False, metadata=flag("leave objects out of events that are too large", "BOOL")
    )
    audit_log_truncate_max_event_size: int = field(
        default=LARGEST_EVENT, metadata=flag("bytes of an event (default: %(default)s)", "BYTES")
    )
    audit_log_truncate_max_batch_size: int = field(
        default=LARGEST_BATCH, metadata=flag("bytes of a batch (default: %(default)s)", "BYTES")
    )
    audit_webhook_config_file: PathLike | None = field(
        default=None, metadata=flag("a kubeconfig of the server that events are sent to", "PATH")
    )
    audit_webhook_version: str = field(
        default=VERSION, metadata=flag("the version of events that are sent (default: %(default)s)", "VERSION")
    )
    audit_webhook_initial_backoff: str = field(
        default="10s", metadata=flag("how long to wait before the second try (default: %(default)s)", "DURATION")
    )
    audit_webhook_mode: str = field(
        default=BATCH, metadata=flag(f"how events are sent: {', '.join(MODES)} (default: %(default)s)", "MODE")
    )
    audit_webhook_batch_buffer_size: int = field(
        default=10000, metadata=flag("events that may wait to be sent (default: %(default)s)", "EVENTS")
    )
    audit_webhook_batch_max_size: int = field(
        default=400, metadata=flag("events that are sent at once (default: %(default)s)", "EVENTS")
    )
    audit_webhook_batch_max_wait: str = field(
        default="30s", metadata=flag("how long an event waits for others (default: %(default)s)", "DURATION")
    )
    audit_webhook_batch_throttle_enable: bool = field(
        default=True, metadata=flag("limit how often events are sent (default: true)", "BOOL")
    )
    audit_webhook_batch_throttle_qps: float = field(
        default=10.0, metadata=flag("batches a second (default: %(default)s)", "QPS")
    )
    audit_webhook_batch_throttle_burst: int = field(
        default=15, metadata=flag("batches at once (default: %(default)s)", "BATCHES")
    )
    audit_webhook_truncate_enabled: bool = field(
        default=False, metadata=flag("leave objects out of events that are too large to be sent", "BOOL")
    )
    audit_webhook_truncate_max_event_size: int = field(
        default=LARGEST_EVENT, metadata=flag("bytes of an event (default: %(default)s)", "BYTES")
    )
    audit_webhook_truncate_max_batch_size: int = field(
        default=LARGEST_BATCH, metadata=flag("bytes of a batch (default: %(default)s)", "BYTES")
    )

    def check_audit(self) -> None:
        """Raise ValueError for options that make no sense, with the texts of kube-apiserver."""
        for plugin in ("log", "webhook"):
            for name in ("batch_max_wait", "initial_backoff")[: 1 + (plugin == "webhook")]:
                nanoseconds(self, f"audit_{plugin}_{name}")
        problems: list[str] = []
        if self.audit_log_path:
            problems += self._backend_problems("log")
            if self.audit_log_format not in FORMATS:
                allowed = ",".join(FORMATS)
                text = f'invalid audit log format {self.audit_log_format}, allowed formats are "{allowed}"'
                problems.append(text)
            for name in ("maxage", "maxbackup", "maxsize"):
                if (number := getattr(self, f"audit_log_{name}") or 0) < 0:
                    problems.append(f"--audit-log-{name} {number} can't be a negative number")
        if self.audit_webhook_config_file:
            problems += self._backend_problems("webhook")
        if problems:
            raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        _ = self.audit_rules, self.audit_webhook

    def _backend_problems(self, plugin: str) -> list[str]:
        """Return the errors of the options that all backends have."""
        problems, event = [self._mode_problem(plugin)], self._option(plugin, "truncate_max_event_size")
        batch = self._option(plugin, "truncate_max_batch_size")
        if event <= 0:
            problems.append(f"invalid audit truncate {plugin} max event size {event}, must be a positive number")
        elif batch < event:
            larger = f"must be greater than max event size ({event})"
            problems.append(f"invalid audit truncate {plugin} max batch size {batch}, {larger}")
        version: str = self._option(plugin, "version")
        if version.count("/") > 1:
            problems.append(f"unexpected GroupVersion string: {version}")
        elif version != VERSION:
            problems.append(f'invalid group version, allowed versions are ["{VERSION}"]')
        return [problem for problem in problems if problem]

    def _mode_problem(self, plugin: str) -> str:
        """Return the error of a mode and, if it is "batch", of what says how events are gathered; "" without one."""
        mode = self._option(plugin, "mode")
        if mode not in MODES:
            return f'invalid audit {plugin} mode {mode}, allowed modes are "{",".join(MODES)}"'
        if mode != BATCH:
            return ""
        numbers = {"buffer_size": "buffer size", "max_size": "max batch size"}
        if self._option(plugin, "batch_throttle_enable"):
            numbers |= {"throttle_qps": "throttle QPS", "throttle_burst": "throttle burst"}
        for name, words in numbers.items():
            if (number := self._option(plugin, f"batch_{name}")) <= 0:
                return f"invalid audit batch {plugin} {words} {number:g}, must be a positive number"
        return ""

    def _option(self, plugin: str, name: str) -> Any:
        return getattr(self, f"audit_{plugin}_{name}")

    def audit_backend(self, plugin: str) -> BackendOptions:
        """Return the options of the backend "log" or "webhook" that all have."""
        throttled = self._option(plugin, "batch_throttle_enable")
        batching = Batching(
            self._option(plugin, "batch_buffer_size"),
            self._option(plugin, "batch_max_size"),
            nanoseconds(self, f"audit_{plugin}_batch_max_wait") / 1e9,
            self._option(plugin, "batch_throttle_qps") if throttled else None,
            self._option(plugin, "batch_throttle_burst"),
        )
        truncates = self._option(plugin, "truncate_enabled")
        largest = self._option(plugin, "truncate_max_event_size") if truncates else None
        return BackendOptions(self._option(plugin, "mode"), batching, largest)

    @property
    def audit_backoff(self) -> float:
        """Return the seconds before an EventList is sent again."""
        return nanoseconds(self, "audit_webhook_initial_backoff") / 1e9

    @cached_property
    def audit_rules(self) -> Policy | None:
        """Return the policy, None without one. Raises ValueError."""
        given = self.audit_policy if self.audit_policy is not None else self.audit_policy_file
        if not given:
            return None
        if self.audit_policy is not None and self.audit_policy_file:
            raise ValueError("audit_policy and audit_policy_file exclude each other")
        from understudy.apiserver.permissions.audit import policy_reader  # YAML, which most servers do not read

        if self.audit_policy is None:
            return policy_reader.load_policy(Path(self.audit_policy_file or ""))
        try:
            return policy_reader.policy_of(given)
        except ValueError as why:
            raise ValueError(f"audit_policy: {why}") from None

    @cached_property
    def audit_webhook(self) -> Endpoint | None:
        """Return the server that events are sent to, None without one or without a policy. Raises ValueError."""
        if not self.audit_webhook_config_file or self.audit_rules is None:
            return None
        from understudy.apiserver.server.options.webhook_files import read_endpoint  # YAML

        try:
            return read_endpoint(Path(self.audit_webhook_config_file))
        except ValueError as why:
            raise ValueError(f"initializing audit webhook: {why}") from None
