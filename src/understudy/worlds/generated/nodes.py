"""The world `nodes`: as many nodes as are asked for, with or without GPUs and pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from understudy.machinery.types import Obj
from understudy.worlds.generated.objects import (
    device,
    device_class,
    device_slice,
    node,
    node_names,
    numbered,
    template,
    uuid_of,
)
from understudy.worlds.world import Parameter, Value, World, WorldObject

PARAMETERS = {
    "count": Parameter(10, "nodes", least=1),
    "gpus": Parameter(0, "GPUs of each node", most=128),
    "driver": Parameter("gpu.example.com", "their driver, and the name of their class"),
    "model": Parameter("a100", "their model, an attribute"),
    "memory": Parameter("80Gi", "their memory, a capacity"),
    "pods": Parameter(0, "pods that wait, each for one GPU if there are any"),
    "zones": Parameter(1, "zones among which the nodes are divided", least=1),
    "cpu": Parameter(32, "CPUs of each node", least=1),
    "prefix": Parameter("node", "how names of nodes begin"),
}


def _objects(values: Mapping[str, Value]) -> Iterable[WorldObject]:
    return numbered(_all(dict(values)), "nodes")


def _all(values: dict[str, Any]) -> Iterator[Obj]:
    driver, gpus = values["driver"], values["gpus"]
    names = node_names(values["count"], values["prefix"])
    for number, name in enumerate(names):
        labels = {"topology.kubernetes.io/zone": f"zone-{number % values['zones'] + 1}"}
        yield node(name, labels, values["cpu"])
    if gpus:
        yield device_class(driver, f'device.driver == "{driver}"')
        yield template("gpu", "gpu", driver)
        for name in names:
            yield device_slice(driver, name, 0, 1, devices=[_gpu(name, index, values) for index in range(gpus)])
    for number in range(values["pods"]):
        yield _pod(f"pod-{number + 1}", bool(gpus))


def _gpu(node_name: str, index: int, values: Mapping[str, Any]) -> Obj:
    attributes = {"index": index, "model": values["model"], "uuid": f"GPU-{uuid_of(node_name, index)}"}
    return device(f"gpu-{index}", attributes, {"memory": values["memory"]})


def _pod(name: str, with_gpu: bool) -> Obj:
    container: Obj = {"name": "main", "image": "registry.example.com/main:1.0"}
    spec: Obj = {"containers": [container]}
    if with_gpu:
        container["resources"] = {"claims": [{"name": "gpu"}]}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


NODES = World("nodes", "As many nodes as you ask for, with GPUs and waiting pods.", _objects, parameters=PARAMETERS)
