"""Worlds with devices as public drivers publish them: their names of drivers, attributes and capacities.

https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu, https://github.com/intel/intel-resource-drivers-for-kubernetes,
https://github.com/kubernetes-sigs/dra-driver-google-tpu, https://github.com/kubernetes-sigs/dranet
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from understudy.machinery.types import Obj
from understudy.worlds.generated import nvidia
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
from understudy.worlds.world import Parameter, World

STANDARD = "resource.kubernetes.io"
NODE_COUNT = Parameter(2, "nodes", least=1)
Make = Callable[[dict[str, Any]], Iterator[Obj]]


def _nvidia_gpus(values: dict[str, Any]) -> Iterator[Obj]:
    for name in node_names(values["nodes"]):
        yield node(name, {"nvidia.com/gpu.present": "true"})
        devices = [nvidia.gpu(name, index, values["model"]) for index in range(values["gpus"])]
        yield device_slice(nvidia.DRIVER, name, 0, 1, devices=devices)
    yield device_class("gpu.nvidia.com", nvidia.type_is("gpu"))
    yield template("gpu", "gpu", "gpu.nvidia.com")


def _nvidia_mig(values: dict[str, Any]) -> Iterator[Obj]:
    for name in node_names(values["nodes"]):
        yield node(name, {"nvidia.com/gpu.present": "true"})
        yield from nvidia.mig_slices(name, values["gpus"])
    yield device_class("gpu.nvidia.com", nvidia.type_is("gpu"))
    yield device_class("mig.nvidia.com", nvidia.type_is("mig"))
    yield template("gpu", "gpu", "gpu.nvidia.com")
    yield template("mig", "mig", "mig.nvidia.com")


def _intel_gpus(values: dict[str, Any]) -> Iterator[Obj]:
    for name in node_names(values["nodes"]):
        yield node(name, {})
        devices = [_intel_gpu(index) for index in range(values["gpus"])]
        yield device_slice("gpu.intel.com", name, 0, 1, devices=devices)
    yield device_class("gpu.intel.com", 'device.driver == "gpu.intel.com"')
    yield template("gpu", "gpu", "gpu.intel.com")


def _intel_gpu(index: int) -> Obj:
    bus = f"{0x0F + 16 * index:02x}"
    attributes = {
        "model": "Flex 170",
        "family": "Data Center Flex",
        "driver": "i915",
        "sriov": True,
        "pciId": "0x56c0",
        "pciAddress": f"0000:{bus}:00.0",
        "pciRoot": f"{0x0E + 16 * index:02x}",
        "health": "Healthy",
        f"{STANDARD}/pciBusID": f"0000:{bus}:00.0",
        f"{STANDARD}/pcieRoot": f"pci0000:{0x0E + 16 * index:02x}",
    }
    return device(f"0000-{bus}-00-0-0x56c0", attributes, {"memory": "14248Mi", "millicores": "1k"})


def _google_tpus(values: dict[str, Any]) -> Iterator[Obj]:
    chips: int = values["chips"]
    topology = {1: "1x1", 4: "2x2", 8: "2x4"}.get(chips, f"1x{chips}")
    accelerator, generation = "tpu-v6e-slice", "v6e"
    for name in node_names(values["nodes"]):
        labels = {"accelerator": accelerator, "chip-count": str(chips), "topology": topology}
        yield node(name, {f"tpu.google.com/{key}": value for key, value in labels.items()})
        shared = {"tpuGen": generation, "brand": "Google", "accelerator": accelerator, "chipCount": chips}
        devices = [
            device(str(i), {"index": i, "uuid": f"tpu-{uuid_of(name, i)}", **shared, "topology": topology}, {})
            for i in range(chips)
        ]
        yield device_slice("tpu.google.com", name, 0, 1, devices=devices)
    yield device_class("tpu.google.com", 'device.driver == "tpu.google.com"')
    all_chips = template("tpu", "tpu", "tpu.google.com")  # the driver gives away all chips of a node together
    [request] = all_chips["spec"]["spec"]["devices"]["requests"]
    request["exactly"]["count"] = chips
    yield all_chips


def _dranet_nics(values: dict[str, Any]) -> Iterator[Obj]:
    for number, name in enumerate(node_names(values["nodes"])):
        yield node(name, {})
        devices = [_nic(number, index) for index in range(values["nics"])]
        yield device_slice("dra.net", name, 0, 1, devices=devices)
    yield device_class("dranet", 'device.driver == "dra.net"')
    rdma = template("rdma-nic", "nic", "dranet")
    [request] = rdma["spec"]["spec"]["devices"]["requests"]
    request["exactly"]["selectors"] = [{"cel": {"expression": 'device.attributes["dra.net"].rdma'}}]
    yield rdma


def _nic(node_number: int, index: int) -> Obj:
    """Return a network card; the first one of a node is the usual one, without RDMA."""
    rdma, bus = index > 0, f"{0x8C + index:02x}"
    attributes = {
        "dra.net/ifName": f"eth{index + 1}",
        "dra.net/pciAddress": f"0000:{bus}:00.0",
        "dra.net/mac": f"02:00:00:00:{node_number % 256:02x}:{index:02x}",
        "dra.net/pciVendor": "Mellanox Technologies",
        "dra.net/pciDevice": "MT2910 Family [ConnectX-7]",
        "dra.net/pciSubsystem": "0058",
        "dra.net/numaNode": index % 2,
        "dra.net/mtu": 8896 if rdma else 1460,
        "dra.net/encapsulation": "ether",
        "dra.net/alias": "",
        "dra.net/state": "up",
        "dra.net/type": "device",
        "dra.net/ipv4": f"10.{index}.{node_number // 250 % 256}.{node_number % 250 + 2}",
        "dra.net/ebpf": False,
        "dra.net/sriov": False,
        "dra.net/virtual": False,
        "dra.net/rdma": rdma,
        f"{STANDARD}/pcieRoot": f"pci0000:{0x80 + index // 2:02x}",
    }
    if rdma:
        attributes["dra.net/rdmaDevice"] = f"mlx5_{index - 1}"
    return device(f"pci-0000-{bus}-00-0", attributes, {})


def _world(name: str, summary: str, make: Make, needs: str = "", **parameters: Parameter) -> World:
    gates = (needs,) if needs else ()
    all_parameters: Mapping[str, Parameter] = {"nodes": NODE_COUNT, **parameters}
    return World(name, summary, lambda values: numbered(make(dict(values)), name), gates, all_parameters)


DEVICE_WORLDS = [
    _world(
        "nvidia-gpus",
        "Whole GPUs as the DRA driver for NVIDIA GPUs publishes them.",
        _nvidia_gpus,
        gpus=Parameter(8, "GPUs of each node", least=1, most=16),
        model=Parameter("a100", "their model", choices=tuple(nvidia.MODELS)),
    ),
    _world(
        "nvidia-mig",
        "A100 GPUs and all their MIG partitions, as the DRA driver for NVIDIA GPUs publishes them (dynamic MIG).",
        _nvidia_mig,
        "DRAPartitionableDevices",
        gpus=Parameter(2, "GPUs of each node", least=1, most=8),
    ),
    _world(
        "intel-gpus",
        "Data Center GPUs Flex 170 as Intel's resource driver publishes them.",
        _intel_gpus,
        gpus=Parameter(2, "GPUs of each node", least=1, most=8),
    ),
    _world(
        "google-tpus",
        "TPU v6e chips as the DRA driver for Google TPUs publishes them; a claim takes all of a node.",
        _google_tpus,
        chips=Parameter(4, "chips of each node", least=1, most=8),
    ),
    _world(
        "dranet-nics",
        "Network cards as dranet publishes them: one for everything, the others with RDMA.",
        _dranet_nics,
        nics=Parameter(4, "cards of each node", least=1, most=16),
    ),
]
