"""The labels of namespaces that PodSecurity reads."""

from __future__ import annotations

import pytest

from tests.releases import NEWEST
from understudy.admission.plugins.pod_security.levels import policy

LEVEL, VERSION = "must be one of privileged, baseline, restricted", 'must be "latest" or "v1.x"'


def labelled(**labels: str) -> dict[str, str]:
    return {f"pod-security.kubernetes.io/{name.replace('_', '-')}": value for name, value in labels.items()}


@pytest.mark.parametrize(
    ("labels", "modes"),
    [
        ({}, ("privileged:latest", "privileged:latest", "privileged:latest")),
        ({"enforce": "baseline"}, ("baseline:latest", "privileged:latest", "baseline:latest")),
        (
            {"enforce": "restricted", "enforce_version": "v1.24"},
            ("restricted:v1.24", "privileged:latest", "restricted:v1.24"),
        ),
        ({"enforce": "baseline", "warn": "privileged"}, ("baseline:latest", "privileged:latest", "privileged:latest")),
        (
            {"enforce": "baseline", "enforce_version": "v1.9", "warn_version": "v1.30"},
            ("baseline:v1.9", "privileged:latest", "baseline:v1.30"),
        ),
        ({"enforce_version": "v1.9"}, ("privileged:v1.9", "privileged:latest", "privileged:latest")),
        ({"audit": "restricted", "warn": "baseline"}, ("privileged:latest", "restricted:latest", "baseline:latest")),
        ({"enforce": "strict"}, ("restricted:latest", "privileged:latest", "privileged:latest")),
        ({"warn": "strict", "audit": "strict"}, ("privileged:latest", "privileged:latest", "privileged:latest")),
        ({"enforce": "privileged", "enforce_version": "1.9"}, ("privileged:latest",) * 3),
    ],
)
def test_labels_set_levels_of_modes(labels: dict[str, str], modes: tuple[str, ...]) -> None:
    """A mode without a label is privileged, except that warnings follow the enforced level."""
    assert tuple(map(str, policy(labelled(**labels))[0])) == modes


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("enforce", "strict", LEVEL),
        ("audit", "", LEVEL),
        ("warn", "Baseline", LEVEL),
        ("enforce_version", "v1.01", VERSION),
        ("audit_version", "v2", VERSION),
        ("warn_version", "v1.99999999999999999999", VERSION),
    ],
)
def test_invalid_label_is_reported_with_allowed_values(name: str, value: str, message: str) -> None:
    """The error of an invalid label names the values that it may have."""
    label = f"pod-security.kubernetes.io/{name.replace('_', '-')}"
    errors = policy(labelled(**{name: value}))[1]
    assert [error.text(NEWEST) for error in errors] == [
        f'metadata.labels[{label}]: Invalid value: "{value}": {message}'
    ]
