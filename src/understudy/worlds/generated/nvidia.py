"""GPUs and MIG partitions as the DRA driver for NVIDIA GPUs publishes them.

A partition is a profile at a place: 3g.20gb takes four of eight memory slices, from slice 0 or 4 on. Whole GPU and
partitions draw on the counters of the GPU. https://docs.nvidia.com/datacenter/tesla/mig-user-guide
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from understudy.machinery.types import NamedTuple, Obj
from understudy.worlds.generated.objects import device, device_slice, uuid_of

DRIVER = "gpu.nvidia.com"
GPUS_IN_A_SLICE = 2  # a slice has at most 64 devices that consume counters, and 32 counters before 1.35
MEMORY_SLICES = 8


class Model(NamedTuple):
    """A product: its name, brand, architecture, CUDA compute capability, memory."""

    product: str
    brand: str
    architecture: str
    capability: str
    memory: str


MODELS = {
    "a100": Model("NVIDIA A100-SXM4-40GB", "Nvidia", "Ampere", "8.0.0", "40Gi"),
    "h100": Model("NVIDIA H100 80GB HBM3", "Nvidia", "Hopper", "9.0.0", "81559Mi"),
    "t4": Model("Tesla T4", "Nvidia", "Turing", "7.5.0", "15Gi"),
}


class Profile(NamedTuple):
    """A MIG profile of an A100 with 40 GB: its number, the slices at which it begins and how many it takes, its parts.

    Parts are multiprocessors, copyEngines, decoders, encoders, jpegEngines, ofaEngines, memory.
    """

    name: str
    number: int
    starts: tuple[int, ...]
    size: int
    parts: tuple[str, ...]


PARTS = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines", "memory")
PROFILES = [
    Profile("1g.5gb", 19, (0, 1, 2, 3, 4, 5, 6), 1, ("14", "1", "0", "0", "0", "0", "4864Mi")),
    Profile("2g.10gb", 14, (0, 2, 4), 2, ("28", "2", "1", "0", "0", "0", "9856Mi")),
    Profile("3g.20gb", 9, (0, 4), 4, ("42", "3", "2", "0", "0", "0", "19968Mi")),
    Profile("4g.20gb", 5, (0,), 4, ("56", "4", "2", "0", "0", "0", "19968Mi")),
    Profile("7g.40gb", 0, (0,), 8, ("98", "7", "5", "0", "1", "1", "40192Mi")),
]
WHOLE = PROFILES[-1].parts  # the most of each part that any profile has


def type_is(type_: str) -> str:
    """Return the condition of a class for devices of a type."""
    return f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{type_}'"


def gpu(node_name: str, index: int, model: str, **more: Any) -> Obj:
    """Return a whole GPU."""
    attributes = {"type": "gpu", "uuid": _uuid(node_name, index), **_common(index, MODELS[model])}
    return device(f"gpu-{index}", attributes, {"memory": MODELS[model].memory}, **more)


def mig_slices(node_name: str, gpus: int) -> Iterator[Obj]:
    """Yield the slices of a node whose GPUs can be partitioned: counters first, then devices."""
    groups = [range(start, min(start + GPUS_IN_A_SLICE, gpus)) for start in range(0, gpus, GPUS_IN_A_SLICE)]
    counters = [{"name": _counter_set(index), "counters": _counters(WHOLE, 0, MEMORY_SLICES)} for index in range(gpus)]
    yield device_slice(DRIVER, node_name, 0, len(groups) + 1, sharedCounters=counters)
    for number, group in enumerate(groups, 1):
        devices = [each for index in group for each in _partitionable(node_name, index)]
        yield device_slice(DRIVER, node_name, number, len(groups) + 1, devices=devices)


def _partitionable(node_name: str, index: int) -> Iterator[Obj]:
    """Yield a GPU and its partitions."""
    whole = gpu(node_name, index, "a100", consumesCounters=_consumed(index, WHOLE, 0, MEMORY_SLICES))
    yield whole | {"capacity": _capacity(WHOLE)}
    for profile in PROFILES:
        for start in profile.starts:
            attributes = {"type": "mig", "parentUUID": _uuid(node_name, index), "profile": profile.name}
            yield device(
                f"gpu-{index}-mig-{profile.name.replace('.', '')}-{profile.number}-{start}",
                attributes | _common(index, MODELS["a100"]),
                dict(zip(PARTS, profile.parts, strict=True)),
                consumesCounters=_consumed(index, profile.parts, start, profile.size),
            )


def _common(index: int, model: Model) -> dict[str, Any]:
    """Return the attributes that a GPU and its partitions have in common."""
    return {
        "productName": model.product,
        "brand": model.brand,
        "architecture": model.architecture,
        "cudaComputeCapability": f"{model.capability}@version",
        "driverVersion": "580.65.6@version",
        "cudaDriverVersion": "13.0.0@version",
        "resource.kubernetes.io/pciBusID": f"0000:{0x0F + 8 * index:02x}:00.0",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{0x0C + 8 * (index // 2):02x}",
        "resource.kubernetes.io/numaNode": index // 4,
    }


def _uuid(node_name: str, index: int) -> str:
    return f"GPU-{uuid_of(node_name, index)}"


def _capacity(parts: tuple[str, ...]) -> Obj:
    return {name: {"value": value} for name, value in zip(PARTS, parts, strict=True)}


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counter-set"


def _consumed(index: int, parts: tuple[str, ...], start: int, size: int) -> list[Obj]:
    return [{"counterSet": _counter_set(index), "counters": _counters(parts, start, size)}]


def _counters(parts: tuple[str, ...], start: int, size: int) -> Obj:
    """Return a counter for each part, and one for each memory slice."""
    named = {re.sub(r"([a-z])([A-Z])", r"\1-\2", name).lower(): value for name, value in zip(PARTS, parts, strict=True)}
    slices = {f"memory-slice-{number}": "1" for number in range(start, start + size)}
    return {name: {"value": value} for name, value in {**named, **slices}.items()}
