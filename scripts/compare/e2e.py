"""Run Kubernetes' end-to-end tests on clusters of the real kube-apiserver and of understudy; compare what passes.

    python -m scripts.compare e2e --binaries DIR --etcd PROGRAM v1.37.2 --focus sig-api-machinery

A cluster is the API server, kube-controller-manager and kube-scheduler from DIR, on an etcd, and nodes that run the
images of the tests as programs of this machine (`scripts/common/host_node.py`): agnhost, which plays webhooks and
others, and sample-apiserver. Tests that need more, such as DNS, logs or a browser's images, fail with either API server
and so count nowhere. It needs root on Linux.

k8s.io/kubernetes of the version is fetched as `go` is configured and copied to --work, where the programs are compiled
once. Exit code 0 if whatever passes with kube-apiserver passes with understudy.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trustme

from scripts.common.comparing import Server
from scripts.common.etcd import running_etcd
from scripts.common.host_node import HostNode
from scripts.common.kubeconfig import write_kubeconfig
from scripts.common.ports import free_port
from scripts.common.sandbox import PodNetwork
from scripts.compare.controllers import running
from scripts.compare.envtest import Outcome, cpu_of_children, passed_specs, prepare, report
from scripts.compare.integration import write_understudy

TOKEN = "admintoken"
START_SECONDS = 120.0
SUBNETS = {"real": "10.88.0.0/16", "understudy": "10.89.0.0/16"}
NODES = ("node-1", "node-2")
PACKAGES = {  # programs, by the package that Go makes them of
    "e2e.test": "./test/e2e",
    "agnhost": "./test/images/agnhost",
    "sample-apiserver": "k8s.io/sample-apiserver",
}
FRONT_PROXY = "front-proxy-client"
SPECS = "specs.json"  # the tests' report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--binaries", type=Path, required=True, metavar="DIR", help="the programs of that version")
    parser.add_argument("--etcd", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--kubectl", type=Path, default=shutil.which("kubectl"), metavar="PROGRAM")
    parser.add_argument("--work", type=Path, default=Path("/tmp/understudy-e2e"), help="(default: %(default)s)")
    parser.add_argument("--focus", default="", metavar="REGEXP", help="tests, by their full names")
    parser.add_argument("--skip", default="", metavar="REGEXP", help="tests to leave out")
    parser.add_argument(
        "--feature-gates", default="", metavar="NAME=true,…", help="of all programs; then all APIs are served"
    )
    parser.add_argument("--only", choices=SUBNETS, action="append", help="run on one of the two")
    parser.add_argument("version", help="of k8s.io/kubernetes")


def run(args: argparse.Namespace) -> int:
    """Run the tests; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    work, binaries, etcd = args.work.absolute(), args.binaries.absolute(), args.etcd.absolute()
    programs = {**_built(prepare(f"k8s.io/kubernetes@{args.version}", work)), "etcd": etcd}
    servers = {"real": binaries / "kube-apiserver", "understudy": write_understudy(work)}
    outcomes = {}
    for name in args.only or servers:
        folder = work / "clusters" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        before = cpu_of_children()
        with cluster(servers[name], binaries, programs, SUBNETS[name], folder, args.feature_gates) as kubeconfig:
            begun = time.monotonic()
            _run_tests(programs["e2e.test"], kubeconfig, args, folder)
            clock = time.monotonic() - begun
        passed = {*passed_specs(folder / SPECS)}
        outcomes[name] = Outcome(passed, clock, cpu_of_children() - before)  # that of the whole cluster
    return 1 if report("e2e", outcomes) else 0


def _built(module: Path) -> dict[str, Path]:
    """Return the programs of the tests, compiled unless they are there. Raises CalledProcessError."""
    programs = {}
    for name, package in PACKAGES.items():
        programs[name] = program = module / ".programs" / name
        if not program.exists():
            command = ["go", "test", "-c"] if name.endswith(".test") else ["go", "build"]
            argv = [*command, "-mod=mod", f"-o={program}", package]
            subprocess.run(argv, cwd=module, check=True, env={**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"})
    return programs


def _run_tests(program: Path, kubeconfig: Path, args: argparse.Namespace, folder: Path) -> None:
    """Run the tests on a cluster. What they print and their report are kept in its folder."""
    command = [str(program), f"--kubeconfig={kubeconfig}", "--provider=skeleton", f"--kubectl-path={args.kubectl}"]
    command += ["--ginkgo.no-color", f"--ginkgo.json-report={folder / SPECS}", "--ginkgo.timeout=3h"]
    command += [f"--ginkgo.focus={args.focus}", f"--ginkgo.skip={args.skip}"]
    with (folder / "e2e.log").open("w") as out:
        subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)


# --- a cluster


@contextmanager
def cluster(
    kube_apiserver: Path, binaries: Path, programs: Mapping[str, Path], subnet: str, folder: Path, gates: str
) -> Iterator[Path]:
    """Run a cluster until the block ends; yield the kubeconfig of an administrator, in a folder with all logs."""
    network = PodNetwork(f"e2e{subnet.split('.')[1]}", subnet)
    with ExitStack() as stack:
        stack.enter_context(network.running())
        (member,) = stack.enter_context(running_etcd(programs["etcd"], folder, 1, "--unsafe-no-fsync"))
        files, port = _credentials(folder, network.gateway), free_port()
        url = f"https://{network.gateway}:{port}"
        gate_flags = [f"--feature-gates={gates}"] if gates else []
        flags = [*_server_flags(files, member.url, network.gateway, port), *gate_flags]
        if gates:
            flags.append("--runtime-config=api/all=true")
        stack.enter_context(running([str(kube_apiserver), *flags], folder / "kube-apiserver.log"))
        server = Server(url, TOKEN)
        _wait_until_ready(server, folder / "kube-apiserver.log")
        kubeconfig = write_kubeconfig(folder / "kubeconfig", url, TOKEN, str(files["ca"]))
        for name, flags in _other_flags(files).items():
            program = [str(binaries / name), f"--kubeconfig={kubeconfig}", "--leader-elect=false", *gate_flags, *flags]
            stack.enter_context(running(program, folder / f"{name}.log"))
        env = {"KUBERNETES_SERVICE_HOST": network.gateway, "KUBERNETES_SERVICE_PORT": str(port)}
        for node in NODES:
            host = HostNode(node, Server(url, TOKEN), folder / node, network, programs, env)
            stack.enter_context(host.running())
        yield kubeconfig


def _credentials(folder: Path, address: str) -> dict[str, Path]:
    """Write the certificates, keys and tokens of a cluster; return the files."""
    authority = trustme.CA()
    serving = authority.issue_cert(address, "127.0.0.1", "localhost", "kubernetes.default.svc")
    front_proxy = authority.issue_cert(FRONT_PROXY, common_name=FRONT_PROXY)
    pems = {
        "ca": authority.cert_pem,
        "ca-key": authority.private_key_pem,
        "serving": serving.private_key_and_cert_chain_pem,
        "front-proxy": front_proxy.private_key_and_cert_chain_pem,
        "accounts": trustme.CA().private_key_pem,
    }
    files = {name: folder / f"{name}.pem" for name in pems}
    for name, pem in pems.items():
        pem.write_to_path(str(files[name]))
    files["tokens"] = folder / "tokens.csv"
    files["tokens"].write_text(f"{TOKEN},admin,admin,system:masters\n")
    return files


def _server_flags(files: Mapping[str, Path], etcd: str, address: str, port: int) -> list[str]:
    flags = {
        "etcd-servers": etcd,
        "bind-address": address,
        "advertise-address": address,
        "secure-port": port,
        "tls-cert-file": files["serving"],
        "tls-private-key-file": files["serving"],
        "client-ca-file": files["ca"],
        "token-auth-file": files["tokens"],
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": files["accounts"],
        "service-account-signing-key-file": files["accounts"],
        "service-cluster-ip-range": "10.96.0.0/16",
        "authorization-mode": "Node,RBAC",
        "proxy-client-cert-file": files["front-proxy"],
        "proxy-client-key-file": files["front-proxy"],
        "requestheader-client-ca-file": files["ca"],
        "requestheader-allowed-names": FRONT_PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "enable-aggregator-routing": "true",
        "allow-privileged": "true",
    }
    return [f"--{name}={value}" for name, value in flags.items()]


def _other_flags(files: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the flags of the other programs of the control plane."""
    manager = {
        "root-ca-file": files["ca"],
        "service-account-private-key-file": files["accounts"],
        "cluster-signing-cert-file": files["ca"],
        "cluster-signing-key-file": files["ca-key"],
    }
    ports = "--secure-port=0"
    return {
        "kube-controller-manager": [ports, *(f"--{name}={file}" for name, file in manager.items())],
        "kube-scheduler": [ports],
    }


def _wait_until_ready(server: Server, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while server.exchange("GET", "/readyz").status != 200:
        if time.monotonic() > end:
            raise SystemExit(f"{server.url} does not get ready; see {log}")
        time.sleep(0.2)
