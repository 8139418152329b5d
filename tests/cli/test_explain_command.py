"""The command `understudy explain-allocation`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.releases import NEWEST
from understudy import Server
from understudy.cli import main as cli

WORLD = Path(__file__).parents[2] / "fixtures" / "allocation.yaml"
SECOND_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: second}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}
"""


def explain(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = cli.main(["explain-allocation", *args])
    return code, *capsys.readouterr()


def test_claim_that_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Each device of the node is listed with the rule that it fails, and the exit code is 1."""
    code, out, _ = explain(capsys, str(WORLD))
    assert code == 1
    assert out.splitlines()[:5] == [
        "claim default/training",
        "  node node-a: does not fit",
        "    default/training: request gpus: 1 of 2 devices found",
        "      gpu.example.com/node-a/gpu-0: fits",
        "      gpu.example.com/node-a/gpu-1: in use by claim default/inference",
    ]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the same, for programs."""
    code, out, _ = explain(capsys, str(WORLD), "-o", "json")
    [explained] = json.loads(out)
    assert (code, explained["claims"], explained["possible"]) == (1, ["default/training"], False)
    [node] = explained["nodes"]
    [request] = node["claims"][0]["requests"]
    assert [device["reason"] for device in request["devices"]] == [
        "Fits",
        "InUse",
        "SelectorFalse",
        "TaintNotTolerated",
    ]


def test_gates_of_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    """Feature gates are those of the release, but for those that are set: without taints the device can be had."""
    code, out, _ = explain(capsys, str(WORLD), "--feature-gates", "DRADeviceTaints=false,DRADeviceTaintRules=false")
    assert code == 0
    assert "default/training: request gpus gets gpu.example.com/node-a/gpu-3" in out


def test_claims_of_one_pod(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Claims that are named are allocated together; without names each is explained by itself."""
    second = tmp_path / "second.yaml"
    second.write_text(SECOND_CLAIM)
    code, out, _ = explain(capsys, str(WORLD), str(second))
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "claim default/training",
        "claim default/second",
    ]
    names = ["--claim", "default/second", "--claim", "default/training"]
    code, out, _ = explain(capsys, str(WORLD), str(second), *names)
    assert (code, out.splitlines()[0]) == (1, "claim default/second, default/training")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "name manifests, --server or --kubeconfig"),
        ([str(WORLD), "--claim", "default/none"], "there is no claim default/none"),
        ([str(WORLD), "--node", "node-b"], "there is no node node-b"),
        ([str(WORLD), "--server", "http://127.0.0.1:1"], "either from manifests or from a server"),
        (["--server", "http://127.0.0.1:1"], "127.0.0.1:1"),
        (["no-such-file.yaml"], "some manifests cannot be read"),
        ([str(WORLD), "--emulated-version", "1.2"], "1.2"),
        ([str(WORLD), "--emulated-version", "1.32"], 'no matches for kind "DeviceClass"'),
    ],
)
def test_what_cannot_be_explained(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong argument ends the command with exit code 2 and one line that says why."""
    code, out, err = explain(capsys, *args)
    assert (code, out) == (2, "")
    assert message in err.splitlines()[-1]


RULE = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: rule}
spec:
  deviceSelector: {device: gpu-0}
  taint: {key: broken, effect: NoSchedule}
"""


@pytest.mark.parametrize("on", [False, True])
def test_taint_rules(on: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Devices have the taints of DeviceTaintRules, too, while their gate is on."""
    rule = tmp_path / "rule.yaml"
    rule.write_text(RULE)
    _, out, _ = explain(capsys, str(WORLD), str(rule), "--feature-gates", f"DRADeviceTaintRules={on}")
    assert ("gpu-0: taint broken:NoSchedule is not tolerated" in out) is on


async def test_objects_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """The objects can be those of a running server."""
    async with Server(emulated_version=str(NEWEST), load=[WORLD]) as server:
        gates = ("--feature-gates", "DRADeviceTaintRules=true")
        code, out, _ = await asyncio.to_thread(explain, capsys, "--server", server.url, *gates)
    assert code == 1
    assert "gpu.example.com/node-a/gpu-1: in use by claim default/inference" in out
