"""The option of a server that says where traces of requests go. Upstream: `TracingOptions`."""

from __future__ import annotations

from dataclasses import field
from importlib.util import find_spec
from pathlib import Path

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_34, V1_37, ByRelease, Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.typeinfo.go_types import INTERNAL
from understudy.machinery.types import GroupVersionKind, NamedTuple, dataclass

GROUP, KIND = "apiserver.config.k8s.io", "TracingConfiguration"
MOST = 1_000_000
_INTERNAL = GroupVersionKind("apiserver.k8s.io", INTERNAL, KIND)  # of a file that does not name its own kind
NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc")
_VERSIONS = ByRelease({V1_34: ("v1", "v1alpha1", "v1beta1"), V1_31: ("v1alpha1", "v1beta1")})
_SCHEME = ByRelease(
    {
        V1_37: "k8s.io/apiserver/pkg/server/options/tracing.go:48",
        V1_31: "k8s.io/apiserver/pkg/server/options/tracing.go:49",
    }
)
_PACKAGE = "k8s.io/apiserver/pkg/apis/apiserver"
_SCHEMES = ("dns", "unix", "unix-abstract")
_ENDPOINT, _RATE = "endpoint", "samplingRatePerMillion"


class TracingConfiguration(NamedTuple):
    """The collector that traces are exported to, and the share of requests, in a million, that are traced."""

    endpoint: str | None
    rate: int


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TracingOptions:
    """The options that say what is told of requests. Raises ValueError for options that make no sense.

    tracing_config_file  a TracingConfiguration: the collector to which traces are exported (OTLP over gRPC), and of
                         how many requests; others are traced if their client says so. Needs the extra `tracing`
    """

    tracing_config_file: PathLike | None = field(
        default=None, metadata=flag("where traces go, a TracingConfiguration; needs the extra tracing", "PATH")
    )

    def tracing_configuration(self, version: Version, gates: Gates) -> TracingConfiguration | None:
        """Return the configuration of traces, None for a server that makes none. Raises ValueError."""
        if not self.tracing_config_file or not gates[features.API_SERVER_TRACING]:
            return None
        configuration = _read(Path(self.tracing_config_file), version)
        if any(_is_missing(name) for name in NEEDED):
            raise ValueError('--tracing-config-file needs the extra "tracing": pip install "understudy[tracing]"')
        return configuration


def _is_missing(name: str) -> bool:
    """Report whether a package is not installed."""
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:  # nor the one that it is in
        return True


def _read(path: Path, version: Version) -> TracingConfiguration:
    """Read and check a configuration. Raises ValueError with the text of kube-apiserver."""
    try:
        data = path.read_bytes()
    except OSError as why:
        reason = f"open {path}: {(why.strerror or str(why)).lower()}"
        text = f'unable to read tracing configuration from "{path}": {reason}'
        raise ValueError(f"failed to read tracing config: {text}") from None
    try:
        _, obj = decode_named(data, _types(version).find, _SCHEME[version], default=_INTERNAL)
    except DecodeError as why:
        text = f"unable to decode tracing configuration data: {why}"
        raise ValueError(f"failed to read tracing config: {text}") from None
    endpoint, rate = obj.get(_ENDPOINT), obj.get(_RATE)
    errors = [*_rate_errors(rate or 0), *([] if endpoint is None else _endpoint_errors(endpoint))]
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise ValueError(f"failed to validate tracing configuration: {text}")
    return TracingConfiguration(endpoint, rate or 0)


def _types(version: Version) -> ConfigurationTypes:
    """Return the Go types of the versions that a release reads, which have the same fields."""
    fields = [
        TYPE_META,
        ["Endpoint", _ENDPOINT, "o", "*string", 0],
        ["SamplingRatePerMillion", _RATE, "o", "*int32", 0],
    ]
    names = {f"{GROUP}/{each}/{KIND}": f"{_PACKAGE}/{each}.{KIND}" for each in _VERSIONS[version]}
    names["/".join(_INTERNAL)] = f"{_PACKAGE}.{KIND}"
    return ConfigurationTypes(names, dict.fromkeys(names.values(), fields))


def _rate_errors(rate: int) -> list[str]:
    """Return the errors of a sampling rate (`validateSamplingRate`)."""
    if rate < 0:
        return [f"{_RATE}: Invalid value: {rate}: sampling rate must be positive"]
    if rate > MOST:
        why = "sampling rate per million must be less than or equal to one million"
        return [f"{_RATE}: Invalid value: {rate}: {why}"]
    return []


def _endpoint_errors(endpoint: str) -> list[str]:
    """Return the errors of an endpoint (`validateEndpoint`)."""
    if "//" not in endpoint:
        endpoint = f"dns://{endpoint}"
    if error := parse_error(endpoint, relative=True):
        return [f"{_ENDPOINT}: Invalid value: {go_quote(endpoint)}: parse {go_quote(endpoint)}: {error}"]
    scheme = endpoint.partition(":")[0]
    if scheme in _SCHEMES:
        return []
    see = "See https://github.com/grpc/grpc/blob/master/doc/naming.md"
    why = f"unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  {see}"
    return [f"{_ENDPOINT}: Invalid value: {go_quote(endpoint)}: {why}"]
