"""The options of /metrics, which are kube-apiserver's. Upstream: `Options` of k8s.io/component-base/metrics."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.text import aggregate, go_quote, path_error
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import NamedTuple, dataclass

_NAME, _LABEL = "[a-zA-Z_:][a-zA-Z0-9_:]*", "[a-zA-Z_][a-zA-Z0-9_]*"
log = logging.getLogger("understudy")

_HIDDEN, _DISABLED = "showHiddenMetricsForVersion", "disabledMetrics"
_ALLOWED, _MANIFEST = "allowListMapping", "allowListMappingManifest"
_KEYS = (
    f"must have keys with format `metricName,labelName` where metricName matches {go_quote(_NAME)} and labelName "
    f"matches {go_quote(_LABEL)}"
)
_OLD_KEYS = (
    "--allow-metric-labels must have a list of kv pair with format `metricName,labelName=labelValue, labelValue,...`"
)
_CHECKS_ALL = ByRelease({V1_36: True, V1_31: False})  # files and names too; before, they are ignored or mean nothing


class MetricSettings(NamedTuple):
    """The families that are not written, those that are though they are deprecated, and the values of labels.

    allowed  {family: {label: values}}; other values are "unexpected"
    """

    disabled: frozenset[str] = frozenset()
    shows_hidden: bool = False
    allowed: Mapping[str, Mapping[str, frozenset[str]]] = {}


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class MetricsOptions:
    """The options of /metrics. Raises ValueError for those that make no sense.

    allow_metric_labels           {"METRIC,LABEL": "VALUE,VALUE"}: other values of the label are "unexpected"
    allow_metric_labels_manifest  a YAML file with the same
    disabled_metrics              names of metrics that are not written
    show_hidden_metrics_for_version
                                  the release before, to write metrics that are deprecated for so long that they are
                                  hidden
    """

    allow_metric_labels: Mapping[str, str] | None = field(
        default=None, metadata=flag("values of labels of metrics; others are 'unexpected'", "METRIC,LABEL=VALUE,VALUE")
    )
    allow_metric_labels_manifest: PathLike | None = field(
        default=None, metadata=flag("a YAML file with values of labels of metrics", "PATH")
    )
    disabled_metrics: Sequence[str] = field(default=(), metadata=flag("metrics that are not written", "METRIC,METRIC"))
    show_hidden_metrics_for_version: str = field(
        default="", metadata=flag("the release before, to write metrics that are hidden", "VERSION")
    )

    def check_metrics(self, version: Version) -> None:
        """Raise ValueError for options that make no sense, with the texts of kube-apiserver."""
        errors = [*self._wrong(version)]
        if errors:
            raise ValueError(aggregate(errors))

    def metric_settings(self) -> MetricSettings:
        """Return the settings that the options give."""
        listed = self.allow_metric_labels
        if listed is None and self.allow_metric_labels_manifest is not None:
            try:
                listed = _read(self.allow_metric_labels_manifest)
            except ValueError as why:  # before 1.36
                log.error("%s", why)
        allowed: dict[str, dict[str, frozenset[str]]] = {}
        for key, values in (listed or {}).items():
            name, _, label = key.partition(",")
            allowed.setdefault(name, {})[label] = frozenset(values.split(","))
        return MetricSettings(frozenset(self.disabled_metrics), bool(self.show_hidden_metrics_for_version), allowed)

    def _wrong(self, version: Version) -> Iterator[str]:
        """Yield the errors of the options."""
        shown, before = self.show_hidden_metrics_for_version, version.previous
        checks_all = _CHECKS_ALL[version]
        if shown and shown != str(before):
            if checks_all:
                text = f"must be omitted or have the value '{before}'; only the previous minor version is allowed"
                yield _invalid(_HIDDEN, shown, text)
            else:
                text = f"must be omitted or have the value '{before}'. Only the previous minor version is allowed"
                yield f"--show-hidden-metrics-for-version {text}"
        if not checks_all:
            if self.allow_metric_labels and not _are_keys(self.allow_metric_labels):
                yield _OLD_KEYS
            return
        odd = [name for name in self.disabled_metrics if not re.fullmatch(_NAME, name)]
        if odd:
            text = f"must be fully qualified metric names matching {go_quote(f'^{_NAME}$')}, got {go_quote(odd[0])}"
            yield _invalid(_DISABLED, [*self.disabled_metrics], text)
        if self.allow_metric_labels and not _are_keys(self.allow_metric_labels):
            yield _invalid(_ALLOWED, dict(self.allow_metric_labels), _KEYS)
        if manifest := str(self.allow_metric_labels_manifest or ""):
            yield from self._wrong_manifest(manifest)

    def _wrong_manifest(self, manifest: str) -> Iterator[str]:
        """Yield the errors of the file."""
        try:
            listed = _read(manifest)
        except ValueError as why:
            yield _invalid(_MANIFEST, manifest, str(why))
        else:
            if not _are_keys(listed):
                inner = _invalid(_MANIFEST, listed, _KEYS)
                yield _invalid(_MANIFEST, manifest, f"invalid allow list mapping in manifest: [{inner}]")
        if self.allow_metric_labels is not None:
            shown, disabled = self.show_hidden_metrics_for_version, [*self.disabled_metrics]
            given = {_HIDDEN: shown, _DISABLED: disabled, _ALLOWED: dict(self.allow_metric_labels), _MANIFEST: manifest}
            value = {name: each for name, each in given.items() if each}
            yield _invalid("", value, f"cannot specify both {_ALLOWED} and {_MANIFEST}")


def _are_keys(listed: Mapping[str, str]) -> bool:
    return all(re.fullmatch(f"{_NAME},{_LABEL}", key) for key in listed)


def _invalid(name: str, value: object, detail: str) -> str:
    """Return the error of a field of the configuration, "" for all of it."""
    return f"metrics{f'.{name}' if name else ''}: Invalid value: {encode(value).decode()}: {detail}"


def _read(path: PathLike) -> dict[str, str]:
    """Return the values of labels in a file. Raises ValueError."""
    from understudy.machinery.golang.yaml_reader import load_yaml  # few servers need it

    try:
        documents = load_yaml(Path(path).read_text())
    except OSError as why:
        raise ValueError(f"failed to read allow list manifest: {path_error(why, path)}") from None
    except (DecodeError, UnicodeDecodeError) as why:
        raise ValueError(f"failed to parse allow list manifest: {why}") from None
    listed = documents[0].value if documents else {}
    if not isinstance(listed, dict) or not all(isinstance(values, str) for values in listed.values()):
        raise ValueError("failed to parse allow list manifest: want texts by metric and label")
    return dict(listed)
