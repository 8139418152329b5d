"""Events that are sent to a webhook: when, in which form, and what becomes of those that it does not take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.compare.cases.webhook_server import Answer, WebhookServer
from tests.http import send
from tests.waiting import wait_until
from understudy import Server, StatusError

PATH = "/audit"
RECORDED = Path(__file__).parent / "recorded/webhook_errors.jsonl"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "<&>"}}
POLICY: dict[str, Any] = {
    "rules": [{"level": "None", "users": ["system:apiserver"], "verbs": ["watch"]}, {"level": "RequestResponse"}]
}


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    with WebhookServer() as hook:
        hook.answers[PATH] = Answer(review=False)
        yield hook


@pytest.fixture
def kubeconfig(hook: WebhookServer, tmp_path: Path) -> Path:
    """A kubeconfig of the webhook, with a token."""
    cluster = {"server": f"https://127.0.0.1:{hook.port}{PATH}", "certificate-authority-data": hook.bundle}
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "webhook.kubeconfig"
    path.write_text(json.dumps(content))
    return path


def events_of(calls: list[Any]) -> list[Any]:
    return [event for call in calls for event in call["body"]["items"]]


def test_batches_are_event_lists(hook: WebhookServer, kubeconfig: Path) -> None:
    """Events are gathered and sent as an EventList, those that wait when the server stops, too."""
    with Server(audit_policy=POLICY, audit_webhook_config_file=kubeconfig) as server:
        server.create(CONFIG_MAP)
        logged = server.audit
    calls = hook.taken()  # one, or two if the server stopped between the two events
    for call in calls:
        assert (call["method"], call["path"]) == ("POST", "/audit?timeout=30s")
        assert call["headers"] == {
            "accept": "application/json, */*",
            "authorization": "Bearer secret",
            "content-type": "application/json",
            "user-agent": "Go-http-client/1.1",
        }
        assert [*call["body"]] == ["kind", "apiVersion", "metadata", "items"]
        assert (call["body"]["kind"], call["body"]["apiVersion"]) == ("EventList", "audit.k8s.io/v1")
        assert call["body"]["metadata"] == {}
    bare = [{key: value for key, value in event.items() if key not in ("kind", "apiVersion")} for event in logged]
    assert sorted(events_of(calls), key=lambda event: str(event["stage"])) == bare


def test_batches_have_a_size(hook: WebhookServer, kubeconfig: Path) -> None:
    """A batch that is full is sent without waiting for its time."""
    options: dict[str, Any] = {"audit_webhook_batch_max_size": 2, "audit_webhook_batch_max_wait": "1h"}
    with Server(audit_policy=POLICY, audit_webhook_config_file=kubeconfig, **options) as server:
        server.create(CONFIG_MAP)
        calls = wait_until(hook.taken)
        assert [event["stage"] for event in events_of(calls)] == ["RequestReceived", "ResponseComplete"]


def test_blocking_answers_wait(hook: WebhookServer, kubeconfig: Path) -> None:
    """When a request is answered, the webhook has its events, each in an EventList of its own."""
    with Server(audit_policy=POLICY, audit_webhook_config_file=kubeconfig, audit_webhook_mode="blocking") as server:
        hook.taken()
        server.create(CONFIG_MAP)
        calls = hook.taken()
        assert [[event["stage"] for event in call["body"]["items"]] for call in calls] == [
            ["RequestReceived"],
            ["ResponseComplete"],
        ]


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict"])
def test_strict_requests_fail_if_they_are_not_logged(hook: WebhookServer, kubeconfig: Path, mode: str) -> None:
    """A webhook that fails is asked five times; then only a strict server refuses the request, and does nothing.

    Metrics count both.
    """
    options: dict[str, Any] = {"audit_webhook_mode": mode, "audit_webhook_initial_backoff": "1ms"}
    with Server(audit_policy=POLICY, audit_webhook_config_file=kubeconfig, **options) as server:
        hook.answers[PATH] = Answer(review=False, status=500, raw="broken")
        hook.taken()
        path = "/api/v1/namespaces/default/configmaps"
        answer = send(server, "POST", path, CONFIG_MAP)
        hook.answers[PATH] = Answer(review=False)
        if mode == "blocking":
            assert answer.status == 201
            server.get("configmap", "a")
        else:
            text = f'Internal Server Error: "{path}": failed to store audit event\n'
            assert (answer.status, answer.body.decode()) == (500, text)
            with pytest.raises(StatusError, match=r"not found"):
                server.get("configmap", "a")
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
        lost, rejected = (2, 0) if mode == "blocking" else (1, 1)
        assert f'apiserver_audit_error_total{{plugin="webhook"}} {lost}' in lines
        assert f"apiserver_audit_requests_rejected_total {rejected}" in lines


def test_events_that_a_webhook_does_not_take_are_lost(
    hook: WebhookServer, kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Events that the webhook does not take are sent again after a while; in the end they are lost, which is logged."""
    hook.answers[PATH] = Answer(review=False, status=503, raw="")
    options: dict[str, Any] = {"audit_webhook_batch_max_size": 1, "audit_webhook_initial_backoff": "1ms"}
    with Server(audit_policy="Metadata", audit_webhook_config_file=kubeconfig, **options) as server:
        send(server, "GET", "/version")
        wait_until(lambda: "affecting 1 audit events" in caplog.text)
        hook.answers[PATH] = Answer(review=False)
    assert "Error in audit plugin 'webhook' affecting 1 audit events" in caplog.text


@pytest.mark.maintenance
def test_errors_are_those_of_client_go(hook: WebhookServer, kubeconfig: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Any error of the webhook has it asked five times, is logged in the words of client-go, and counts one event as
    lost, as by kube-apiserver 1.32 and 1.37."""
    rules = [{"level": "Metadata", "nonResourceURLs": ["/version"]}, {"level": "None"}]
    policy = {"omitStages": ["RequestReceived"], "rules": rules}
    hook.answers["/other"] = Answer(review=False)
    options: dict[str, Any] = {"audit_webhook_mode": "blocking", "audit_webhook_initial_backoff": "1us"}
    with Server(audit_policy=policy, audit_webhook_config_file=kubeconfig, **options) as server:

        def lost() -> int:
            errors = re.search(r"^apiserver_audit_error_total\{.*\} (\d+)$", text(server), re.MULTILINE)
            return int(errors[1]) if errors else 0

        for line in RECORDED.read_text().splitlines():
            case = json.loads(line)
            hook.answers[PATH] = Answer(review=False, status=case["status"], headers=case["headers"], raw=case["body"])
            before = hook.count, lost()
            caplog.clear()
            assert send(server, "GET", "/version").status == 200
            logged = [record.getMessage() for record in caplog.records if "audit plugin" in record.getMessage()]
            assert {**case, "calls": hook.count - before[0], "lost": lost() - before[1], "log": logged} == case


def text(server: Server) -> str:
    return send(server, "GET", "/metrics").body.decode()


def test_full_buffers_lose_events(hook: WebhookServer, kubeconfig: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Events that do not fit into the buffer are lost, which the log of the server tells."""
    options: dict[str, Any] = {"audit_webhook_batch_buffer_size": 1, "audit_webhook_batch_throttle_qps": 0.001}
    options |= {"audit_webhook_batch_throttle_burst": 1, "audit_webhook_batch_max_size": 1}
    with Server(audit_policy="Metadata", audit_webhook_config_file=kubeconfig, **options) as server:
        for _ in range(5):
            send(server, "GET", "/version")
        assert "Error in audit plugin 'buffered' affecting 1 audit events: audit buffer queue blocked" in caplog.text


@pytest.mark.parametrize(("limit", "kept"), [(1400, True), (100, False)])
def test_large_events_lose_their_objects(tmp_path: Path, limit: int, kept: bool) -> None:
    """Events that are too large are logged without objects, and say so; or not at all, if they are large even then."""
    path = tmp_path / "audit.log"
    options: dict[str, Any] = {"audit_log_truncate_enabled": True, "audit_log_truncate_max_event_size": limit}
    with Server(audit_policy=POLICY, audit_log_path=path, **options) as server:
        server.create({**CONFIG_MAP, "data": {"k": "x" * 2000}})
    events = [json.loads(line) for line in path.read_text().splitlines()]
    complete = [event for event in events if event["verb"] == "create" and event["stage"] == "ResponseComplete"]
    assert len(complete) == kept
    if kept:
        assert complete[0]["annotations"]["audit.k8s.io/truncated"] == "true"
        assert not {"requestObject", "responseObject"} & complete[0].keys()


def test_policy_is_given_in_python() -> None:
    """A policy may be an object, and a level stands for all requests; typos are told of."""
    with Server(audit_policy="Metadata") as server:
        server.create(CONFIG_MAP)
        assert {event["level"] for event in server.audit} == {"Metadata"}
    for wrong, why in (
        ("Metadat", r"^audit_policy: loading audit policy file: failed to read file path .Metadat."),
        ({"rules": [{"level": "Metadata", "verb": ["get"]}]}, r'^audit_policy: unknown field "rules\[0\].verb"$'),
        ({"rules": [{"level": "All"}]}, r"^audit_policy: rules\[0\].level: Unsupported value: "),
        ({"rules": []}, r"^audit_policy: loaded illegal policy with 0 rules$"),
    ):
        with pytest.raises(ValueError, match=why):
            Server(audit_policy=wrong)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"audit_log_path": "x", "audit_log_mode": "x", "audit_log_format": "y", "audit_log_version": "z",
             "audit_log_truncate_max_event_size": 0},
            '[invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict", invalid audit truncate log '
            "max event size 0, must be a positive number, invalid group version, allowed versions are "
            '["audit.k8s.io/v1"], invalid audit log format y, allowed formats are "legacy,json"]',
        ),
        (
            {"audit_log_path": "x", "audit_log_mode": "batch", "audit_log_batch_buffer_size": 0},
            "invalid audit batch log buffer size 0, must be a positive number",
        ),
        (
            {"audit_log_path": "x", "audit_log_mode": "batch", "audit_log_batch_throttle_enable": True},
            "invalid audit batch log throttle QPS 0, must be a positive number",
        ),
        (
            {"audit_log_path": "x", "audit_log_truncate_max_batch_size": 1, "audit_log_version": "a/b/c"},
            "[invalid audit truncate log max batch size 1, must be greater than max event size (102400), "
            "unexpected GroupVersion string: a/b/c]",
        ),
        (
            {"audit_webhook_config_file": "x", "audit_webhook_mode": "y", "audit_webhook_batch_throttle_qps": 0},
            'invalid audit webhook mode y, allowed modes are "batch,blocking,blocking-strict"',
        ),
        (
            {"audit_webhook_config_file": "/nope", "audit_policy": "Metadata"},
            "initializing audit webhook: stat /nope: no such file or directory",
        ),
        (
            {"audit_webhook_config_file": "/dev/null", "audit_policy": "Metadata"},
            "initializing audit webhook: invalid configuration: no configuration has been provided, try setting "
            "KUBERNETES_MASTER environment variable",
        ),
        (
            {"audit_webhook_initial_backoff": "x"},
            'invalid argument "x" for "--audit-webhook-initial-backoff" flag: time: invalid duration "x"',
        ),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any], error: str) -> None:
    """Errors are those of kube-apiserver 1.37, as it has printed them."""
    with pytest.raises(ValueError, match=r".") as refused:
        Server(**options)
    assert str(refused.value) == error


def test_files_are_not_read_without_need() -> None:
    """Without a policy nothing is logged, so that a kubeconfig that is missing does no harm; kube-apiserver does so."""
    Server(audit_webhook_config_file="/nope", audit_log_maxage=-1, audit_log_mode="x")
