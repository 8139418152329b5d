"""The options of a server: one list behind the flags of `understudy serve`, `Server(…)` and the pytest marker.

Upstream: `ServerRunOptions`, `Config` and their `Validate` and `Complete`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.apiserver.authentication.options import AuthenticationOptions, PathLike, flag
from understudy.apiserver.authorization.modes import RBAC
from understudy.apiserver.server.http.shutdown import ShutdownOptions
from understudy.apiserver.server.http.tracing.options import TracingConfiguration, TracingOptions
from understudy.apiserver.server.options.aggregation import AggregationOptions, FrontProxyOptions, KubeletOptions
from understudy.apiserver.server.options.audit import AuditOptions
from understudy.apiserver.server.options.authorization import AuthorizationOptions
from understudy.apiserver.server.options.limits import Http2Options, LimitOptions
from understudy.apiserver.server.options.replicas import MASTER_COUNT, NONE, ReplicaOptions
from understudy.apiserver.server.options.storage import StorageOptions
from understudy.apiserver.server.options.token_webhook import TokenWebhookOptions
from understudy.apiserver.server.options.values import host_and_port, option_value
from understudy.apiserver.server.pages.metric_options import MetricsOptions
from understudy.apiserver.server.webhooks.egress.dialing import Proxy
from understudy.apiserver.server.webhooks.egress.options import EgressOptions
from understudy.apiserver.server.webhooks.services import Address
from understudy.apiserver.serving.release import DEFAULT, Release, release_names
from understudy.apiserver.serving.runtime_config import served
from understudy.apiserver.storage.interface import Store
from understudy.machinery.golang.times import parse_duration
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import SteeredClock
from understudy.machinery.validation.field import Path as FieldPath

if TYPE_CHECKING:
    from understudy.apiserver.authentication.certificates.authorities import Authorities
    from understudy.apiserver.authentication.oidc.configuration import Configuration
    from understudy.apiserver.authorization.configuration.file import AuthorizerConfiguration
    from understudy.apiserver.controllers.framework.leader_election import Election
    from understudy.apiserver.server.filters.faults.faults import Faults
    from understudy.apiserver.server.filters.faults.rules import Rule
    from understudy.apiserver.server.options.tls.certificates import Certificates

_DIRECTIVES = (
    "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. "
    "see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
)
Manifest = str | os.PathLike[str] | Obj
NamedCertKey = str


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ServerConfig(
    AuthenticationOptions,
    FrontProxyOptions,
    TokenWebhookOptions,
    AuthorizationOptions,
    AggregationOptions,
    KubeletOptions,
    AuditOptions,
    LimitOptions,
    Http2Options,
    StorageOptions,
    ReplicaOptions,
    ShutdownOptions,
    MetricsOptions,
    TracingOptions,
    EgressOptions,
):
    """The options of a server, with those of `AuthenticationOptions`, `FrontProxyOptions`, `TokenWebhookOptions`,
    `AuthorizationOptions`, `AggregationOptions`, `KubeletOptions`, `AuditOptions`, `LimitOptions`, `Http2Options`,
    `StorageOptions`, `ReplicaOptions`, `ShutdownOptions`, `MetricsOptions`, `TracingOptions` and `EgressOptions`.

    Raises ValueError for options that make no sense.

    Every option but `clock`, `store` and `program_flags` may also be the text of its flag:
    `feature_gates="A=true,B=false"`, `controllers="scheduler"`; and None, which is its default.

    emulated_version        the release that it answers like: "1.31", "1.32", …
    feature_gates           {gate: on}; AllAlpha and AllBeta too. Others have their release's defaults
    runtime_config          {"resource.k8s.io/v1alpha3": False, …} switches group-versions on and off
    load                    manifests to begin with: paths of files or folders, texts, objects, worlds by their names
                            ("claim", "demo", "dev", "gpu-cluster")
    bind_address, port      where to listen; port 0 takes a free one
    tls                     whether to speak HTTPS, with `tls_cert_file` and `tls_private_key_file` or a self-signed
                            certificate; by default with such files, with tokens, which kubectl never sends otherwise,
                            and where requests are authorized
    tls_sni_cert_key        the certificates for clients that ask for the server by certain names (SNI), each with its
                            key: "foo.crt,foo.key:*.foo.com,foo.com", or without names for those in it
    strict_transport_security_directives
                            what browsers are told of HTTPS in `Strict-Transport-Security` (RFC 6797): "max-age=…",
                            "includeSubDomains", "preload"; by default nothing
    accept_hosts            regular expressions for the names by which clients without tokens may reach the server, as
                            in `kubectl proxy --accept-hosts`; IP addresses and localhost are accepted anyway. It is
                            what keeps web pages out; with a token file every name is accepted
    control                 whether /understudy/ is served
    ui                      whether /ui/ is served: a page that shows what the server holds and what it decided
    etcd_compaction_interval
                            how often history is compacted, up to the revision of the turn before: a duration as Go
                            writes it ("5m0s"); "0" for never
    event_ttl               how long events are kept after they were last written, as Go writes it ("1h0m0s"); "0" for
                            ever
    controllers             which run behind the server, as kube-controller-manager's: "namespace", "garbage-collector",
                            "clusterrole-aggregation", "validatingadmissionpolicy-status", "serviceaccount",
                            "serviceaccount-token", "legacy-serviceaccount-token-cleaner",
                            "root-ca-certificate-publisher", "podgroup-protection", "node-lifecycle",
                            "taint-eviction", "resourceclaim", "device-taint-eviction"; and "scheduler", with
                            which the part of "node-lifecycle" that looks at no heartbeats runs in any case
    enable_admission_plugins, disable_admission_plugins
                            names such as "LimitRanger" that kube-apiserver knows; its defaults are on, but for
                            ServiceAccount
    admission_control_config_file
                            an AdmissionConfiguration: the folders (`staticManifestsDir`) with webhook configurations
                            and policies that are in force without being objects of the API
    permission_report       a file that is written when the server stops: what each user asked for and was refused,
                            and the smallest roles for what it used, in YAML (.yaml, .yml) or JSON
    service_addresses       {"NAMESPACE/NAME": "HOST:PORT"}: where to reach webhooks and aggregated API servers
                            behind a Service. Others are reached by their endpoints, or else by their cluster IP
    faults                  a file with faults that requests meet from the start, as `/understudy/faults` takes them
    chaos                   {"seed": 7, "share": 0.05}: that share of all requests fails, as the seed decides; see
                            `Faults.chaos`
    clock                   tells the time; by default the machine's clock, which `Server.clock` stops and moves on
    store                   makes the store, which is empty or has what an earlier server left; by default that of
                            `storage`
    program_flags           {flag: value} of a program in whose place the server runs; /flagz shows them with its own
    """

    bind_address: str = field(default="127.0.0.1", metadata=flag("where to listen (default: %(default)s)", "IP"))
    port: int = field(default=0, metadata=flag("the port to listen on, 0 for a free one (default: %(default)s)"))
    emulated_version: str = field(
        default=DEFAULT, metadata=flag(f"{release_names()} (default: %(default)s)", "VERSION")
    )
    feature_gates: Mapping[str, bool] | None = field(
        default=None,
        metadata=flag(
            "features to turn on or off; AllAlpha and AllBeta too (default: as in the release)", "A=true,B=false"
        ),
    )
    runtime_config: Mapping[str, bool] | None = field(
        default=None,
        metadata=flag(
            "what to serve or not: GROUP/VERSION, GROUP/VERSION/RESOURCE, api/all, api/ga, api/beta, api/alpha "
            "(default: as in the release, and all of resource.k8s.io)",
            "GROUP/VERSION=false",
        ),
    )
    load: Sequence[Manifest] = field(
        default=(), metadata=flag("manifests to begin with; may be repeated (default: none)", "FILE|DIR|WORLD")
    )
    tls_cert_file: PathLike | None = field(default=None, metadata=flag("the server's certificate, PEM", "PATH"))
    tls_private_key_file: PathLike | None = field(
        default=None, metadata=flag("the key of the certificate, PEM", "PATH")
    )
    tls_sni_cert_key: Sequence[NamedCertKey] = field(
        default=(),
        metadata=flag(
            "certificate and key (PEM) for clients that ask for names, by default those in it; may be repeated",
            "PATH,PATH[:NAME,NAME]",
        ),
    )
    tls: bool | None = field(
        default=None, metadata=flag("HTTPS; false for plain HTTP (default: with a certificate or a token file)", "BOOL")
    )
    strict_transport_security_directives: Sequence[str] = field(
        default=(),
        metadata=flag("the header Strict-Transport-Security of all answers", "max-age=31536000,includeSubDomains"),
    )
    accept_hosts: Sequence[str] = field(
        default=(),
        metadata=flag("names besides IP addresses and localhost that clients without tokens may use", "REGEXP,REGEXP"),
    )
    control: bool = field(
        default=False, metadata=flag("serve /understudy/ (clock, gates, compact, reset, faults)", "BOOL")
    )
    ui: bool = field(
        default=False, metadata=flag("serve a page about objects and requests at /ui/ (default: %(default)s)", "BOOL")
    )
    controllers: Sequence[str] = field(
        default=(),
        metadata=flag(
            "namespace, garbage-collector, clusterrole-aggregation, validatingadmissionpolicy-status, serviceaccount, "
            "serviceaccount-token, legacy-serviceaccount-token-cleaner, root-ca-certificate-publisher, "
            "podgroup-protection, node-lifecycle, taint-eviction, resourceclaim, scheduler, device-taint-eviction "
            "(default: none)",
            "A,B",
        ),
    )
    etcd_compaction_interval: str = field(
        default="5m0s", metadata=flag("how often history is compacted, 0 for never (default: %(default)s)", "DURATION")
    )
    event_ttl: str = field(
        default="1h0m0s", metadata=flag("how long events are kept, 0 for ever (default: %(default)s)", "DURATION")
    )
    enable_admission_plugins: Sequence[str] = field(
        default=(),
        metadata=flag(
            "admission plugins to switch on besides those that are on by default, such as NodeRestriction",
            "A,B",
        ),
    )
    disable_admission_plugins: Sequence[str] = field(
        default=(), metadata=flag("admission plugins to switch off, such as PodSecurity", "A,B")
    )
    admission_control_config_file: PathLike | None = field(
        default=None,
        metadata=flag(
            "an AdmissionConfiguration: configurations of admission plugins, folders of policies and webhooks", "PATH"
        ),
    )
    permission_report: PathLike | None = field(
        default=None,
        metadata=flag("write what users asked for and the roles for it, at the end: .yaml or .json", "FILE"),
    )
    service_addresses: Mapping[str, str] | None = field(
        default=None,
        metadata=flag(
            "where webhooks, aggregated API servers and pages behind a Service are reached (default: at its endpoints)",
            "NAMESPACE/NAME=HOST:PORT",
        ),
    )
    faults: PathLike | None = field(
        default=None, metadata=flag("faults that requests meet from the start, YAML or JSON", "FILE")
    )
    chaos: Mapping[str, str] | None = field(
        default=None, metadata=flag("let a share of all requests fail, as a seed decides", "seed=7,share=0.05")
    )
    clock: Clock = field(default_factory=SteeredClock)
    store: Callable[[], Store] | None = None
    program_flags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.metadata:
                object.__setattr__(self, option.name, option_value(option, getattr(self, option.name)))
        if not 0 <= self.port <= 65535:
            raise ValueError(f"want a port from 0 to 65535, not {self.port}")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("--tls-cert-file and --tls-private-key-file go together")
        if self.tls is False and self.tls_cert_file:
            raise ValueError("--tls=false and --tls-cert-file exclude each other")
        for name in ("client_ca_file", "requestheader_client_ca_file", "tls_sni_cert_key"):
            if self.tls is False and getattr(self, name):
                raise ValueError(f"--tls=false and --{name.replace('_', '-')} exclude each other")
        for directive in self.strict_transport_security_directives:
            if directive not in ("includeSubDomains", "preload") and not re.fullmatch("max-age=[^=]*", directive):
                raise ValueError(_DIRECTIVES)
        if self.event_seconds < 0:
            raise ValueError(f"want a time to keep events that is not negative, not {self.event_ttl!r}")
        if self.compaction_seconds < 0:
            raise ValueError(f"want a compaction interval that is not negative, not {self.etcd_compaction_interval!r}")
        if self.permission_report is not None and not Path(self.permission_report).absolute().parent.is_dir():
            raise ValueError(f"--permission-report: there is no folder {Path(self.permission_report).parent}")
        _ = self.release, self.accepted_hosts, self.addresses, self.client_authorities, self.account_tokens
        _ = self.tracing, self.proxies
        _ = self.authentication, self.proxy_certificate, self.kubelet_tls, self.front_proxies
        self.check_front_proxies(self.release.version, self.gates())
        if self.faults is not None or self.chaos is not None:
            self._check_faults()
        self.check_token_webhook()
        if self.authorization_config:
            _ = self.authorization_configuration
        else:
            self.check_authorization()
        self.check_audit()
        self.check_limits()
        self.check_http2()
        self.check_storage()
        self.check_replicas()
        self.check_metrics(self.release.version)
        _ = self.termination
        if self.is_read_only and (self.load or self.controllers):
            raise ValueError("--load and --controllers write: with --etcd-snapshot they need --writable")
        if self.enable_admission_plugins or self.disable_admission_plugins:
            from understudy.admission.plugins.ordered import check_plugin_names  # imports all plugins

            check_plugin_names(self.enable_admission_plugins, self.disable_admission_plugins, self.release.version)

    @property
    def headers_of_all(self) -> list[tuple[str, str]]:
        """Return the headers that every answer has besides its own."""
        directives = self.strict_transport_security_directives
        return [("Strict-Transport-Security", "; ".join(directives))] if directives else []

    @cached_property
    def release(self) -> Release:
        """Return the release with what is served of it. Raises ValueError for an unknown release, group or version."""
        return served(Release.named(self.emulated_version), self.runtime_config or {}, self.gates())

    def _check_faults(self) -> None:
        """Read the faults that the server begins with. Raises ValueError."""
        from understudy.apiserver.extensions.serving import Serving
        from understudy.apiserver.server.filters.faults.faults import Faults

        serving = Serving(self.release)
        self.new_fault_rules(Faults(lambda: serving, ()))

    @cached_property
    def fault_documents(self) -> list[Any]:
        """Return the rules of `faults` and `chaos`, as `read_rules` takes them. Raises ValueError."""
        from understudy.apiserver.server.filters.faults.document import chaos_document, read_file

        documents = [] if self.faults is None else read_file(self.faults)
        return documents if self.chaos is None else [*documents, chaos_document(self.chaos)]

    def new_fault_rules(self, faults: Faults) -> list[Rule]:
        """Return the rules that a server begins with, which are not in force yet. Raises ValueError."""
        if self.faults is None and self.chaos is None:
            return []
        from understudy.apiserver.server.filters.faults.document import InvalidRulesError, read_rules

        try:
            return read_rules(self.fault_documents, faults, FieldPath("faults"))
        except InvalidRulesError as wrong:
            texts = [error.text(self.release.version) for error in wrong.errors]
            raise ValueError(f"{self.faults or '--chaos'}: {'; '.join(texts)}") from None

    def flags(self) -> dict[str, str]:
        """Return the options that are flags as text, with those of the program, in the order of their names."""
        options = {option.name: getattr(self, option.name) for option in fields(self) if option.metadata}
        own = {name.replace("_", "-"): _flag_text(value) for name, value in options.items()}
        return dict(sorted({**own, **(self.program_flags or {})}.items()))

    def gates(self) -> Gates:
        """Return new feature gates, as they are at the start. Raises UnknownGateError, ValueError for an unknown
        release."""
        return Gates.of(Release.named(self.emulated_version).version, self.feature_gates)

    @cached_property
    def compaction_seconds(self) -> float:
        """Return the seconds between compactions, 0 for none. Raises ValueError for text that is no duration."""
        nanoseconds = parse_duration(self.etcd_compaction_interval)
        if nanoseconds is None:
            raise ValueError(f"want a compaction interval such as 5m or 0, not {self.etcd_compaction_interval!r}")
        return nanoseconds / 1e9 if self.etcd_snapshot is None else 0  # the history of a snapshot is what it is for

    @cached_property
    def event_seconds(self) -> float:
        """Return the seconds that events are kept, 0 for ever. Raises ValueError for text that is no duration."""
        nanoseconds = parse_duration(self.event_ttl)
        if nanoseconds is None:
            raise ValueError(f"want a time to keep events such as 1h or 0, not {self.event_ttl!r}")
        return nanoseconds / 1e9 if self.etcd_snapshot is None else 0  # those of a snapshot are all old

    @property
    def authenticated(self) -> bool:
        """Report whether a request must name its user, or is anonymous; else everybody is an administrator."""
        files = self.token_auth_file, self.authentication_token_webhook_config_file
        return (
            any(files)
            or self.asks_for_certificates
            or self.enable_bootstrap_token_auth
            or self.authorized
            or self.authentication is not None
        )

    @cached_property
    def proxies(self) -> Mapping[str, Proxy | None]:
        """Return the proxies of `egress_selector_config_file` by the networks behind them, None for those that are
        reached directly. Raises ValueError."""
        return self.egress_proxies(self.release.version)

    @cached_property
    def tracing(self) -> TracingConfiguration | None:
        """Return the configuration of traces, None for a server that makes none. Raises ValueError."""
        return self.tracing_configuration(self.release.version, self.gates())

    @property
    def asks_for_certificates(self) -> bool:
        """Report whether clients may show certificates."""
        return bool(self.client_ca_file or self.requestheader_client_ca_file)

    @property
    def authorities(self) -> Sequence[Authorities]:
        """Return the files of authorities whose certificates clients may show."""
        front = self.front_proxies and self.front_proxies.authorities
        return [file for file in (self.client_authorities, front) if file is not None]

    @property
    def anonymous(self) -> bool:
        """Report whether requests without credentials are those of `system:anonymous`.

        Where everything is allowed they are not: kube-apiserver resets `--anonymous-auth` there.
        """
        if self.authentication is not None and self.authentication.has_anonymous:
            return self.authentication.anonymous_paths is not None
        return self.authorized and self.anonymous_auth

    @cached_property
    def authentication(self) -> Configuration | None:
        """Return the other issuers whose tokens are good, None without one. Raises ValueError."""
        configuration = self.configuration(self.release.version, self.gates())
        if configuration is not None and configuration.has_anonymous and not self.anonymous_auth:
            text = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication"
            raise ValueError(f"anonymous: Forbidden: {text} configuration file")
        return configuration

    @cached_property
    def authorization_configuration(self) -> tuple[bytes, Sequence[AuthorizerConfiguration]]:
        """Return the bytes of `authorization_config`, and its authorizers. Raises ValueError."""
        return self.read_authorizers(self.release.version, self.gates())

    @property
    def has_bootstrap_policy(self) -> bool:
        """Report whether the server begins with RBAC's roles and bindings."""
        if not self.authorization_config:
            return RBAC in self.authorization_mode
        return any(each.type == RBAC for each in self.authorization_configuration[1])

    @property
    def election(self) -> Election | None:
        """Return the election of the server whose controllers run, None if it shares its objects with none."""
        return self.leader_election if self.leader_elect and self.etcd_servers else None

    @property
    def endpoint_address(self) -> str | None:
        """Return the address that the Service `kubernetes` gets, "" if there is none; None if nobody keeps it."""
        return self.advertised_address(self.bind_address) if self.endpoint_reconciler_type != NONE else None

    @property
    def endpoint_count(self) -> int | None:
        """Return the number of servers that the Service `kubernetes` has, None if it has those that hold leases."""
        return self.apiserver_count if self.endpoint_reconciler_type == MASTER_COUNT else None

    @cached_property
    def accepted_hosts(self) -> Sequence[re.Pattern[str]] | None:
        """Return the patterns of `accept_hosts`, None for a server where not everybody is an administrator.

        Raises ValueError for a wrong one.
        """
        try:
            patterns = [re.compile(pattern, re.IGNORECASE) for pattern in self.accept_hosts]
        except re.error as why:
            raise ValueError(f"--accept-hosts: {why.pattern!r} is no regular expression: {why.msg}") from None
        return None if self.authenticated else patterns

    @cached_property
    def addresses(self) -> Mapping[str, Address]:
        """Return host and port of `service_addresses`. Raises ValueError for one that is none."""
        return {name: _address(name, text) for name, text in (self.service_addresses or {}).items()}

    @cached_property
    def certificates(self) -> Certificates:
        """Return the TLS certificates. Raises ValueError for files that hold none, OSError for missing ones."""
        # These import ssl, which flags do not need.
        from understudy.apiserver.server.options.tls.certificates import Certificates
        from understudy.apiserver.server.options.tls.server_names import NamedFiles

        named = [NamedFiles.parse(text) for text in self.tls_sni_cert_key]
        self_signed = self.authenticated or bool(named) if self.tls is None else self.tls
        files = self.tls_cert_file, self.tls_private_key_file
        return Certificates(self_signed, *files, self.authorities, self.generated, named)


def _flag_text(value: object) -> str:
    """Return the value of a flag as Go's package `pflag` prints it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_flag_text(on)}" for name, on in sorted(value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(map(str, value))}]"
    return str(value)


def _address(service: str, text: str) -> Address:
    """Return the host and port of an address such as `127.0.0.1:9443` or `[::1]:9443`. Raises ValueError."""
    address = host_and_port(text)
    if service.count("/") != 1 or address is None:
        raise ValueError(f"want NAMESPACE/NAME=HOST:PORT for the address of a Service, not {service}={text}")
    return address
