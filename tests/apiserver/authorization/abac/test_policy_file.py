"""Policy files that cannot be read: kube-apiserver 1.32 and 1.37 do not start with them, and say why in these words."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy import Server

V1BETA1 = '"apiVersion":"abac.authorization.kubernetes.io/v1beta1"'
SCHEME = 'in scheme "k8s.io/kubernetes/pkg/apis/abac/register.go:33"'
META = (
    'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        ("[1]", f"couldn't get version/kind; json parse error: json: cannot unmarshal array into {META}"),
        (
            '{"kind":1}',
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of "
            "type string",
        ),
        ('{"kind":"Policy","apiVersion":"x/v1"}', f'no kind "Policy" is registered for version "x/v1" {SCHEME}'),
        (
            '{"kind":"Pod"}',
            f'no kind "Pod" is registered for version "abac.authorization.kubernetes.io/v0" {SCHEME}',
        ),
        ('{"apiVersion":"a/b/c","kind":"x"}', "unexpected GroupVersion string: a/b/c"),
        (
            f'{{"kind":"Policy",{V1BETA1},"spec":{{"user":1}}}}',
            "json: cannot unmarshal number into Go struct field PolicySpec.spec.user of type string",
        ),
        (
            f'{{"kind":"Policy",{V1BETA1},"spec":[]}}',
            "json: cannot unmarshal array into Go struct field Policy.spec of type v1beta1.PolicySpec",
        ),
        (f'{{{V1BETA1},"spec":{{}}}}', "converting (v1beta1.Policy) to (v0.Policy): unknown conversion"),
        ('{"user":1}', "json: cannot unmarshal number into Go struct field Policy.user of type string"),
        ('{"readonly":"x"}', "json: cannot unmarshal string into Go struct field Policy.readonly of type bool"),
    ],
)
def test_line_that_is_no_policy(line: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, the line and what stands there."""
    monkeypatch.chdir(tmp_path)
    Path("p.jsonl").write_text(f"# c\n\n{line}\n")
    with pytest.raises(ValueError) as why:  # noqa: PT011 - the whole text is compared
        Server(authorization_mode="ABAC", authorization_policy_file="p.jsonl")
    assert str(why.value) == f"invalid authorization config: error reading policy file p.jsonl, line 3: {line}: {error}"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"authorization_mode": "ABAC"}, "authorization-mode ABAC's authorization policy file not passed"),
        ({"authorization_policy_file": "p"}, "cannot specify --authorization-policy-file without mode ABAC"),
        (
            {"authorization_mode": "ABAC", "authorization_policy_file": "none"},
            "invalid authorization config: open none: no such file or directory",
        ),
    ],
)
def test_flags_without_sense(flags: dict[str, str], error: str) -> None:
    """Mode and file go together."""
    with pytest.raises(ValueError) as why:  # noqa: PT011 - the whole text is compared
        Server(**flags)  # type: ignore[arg-type]
    assert str(why.value) == error
