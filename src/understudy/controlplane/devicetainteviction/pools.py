"""The devices that drivers publish, pool by pool: only slices of the newest generation count."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.machinery.types import Obj


class Pools:
    """The slices of all pools, by driver and pool name."""

    def __init__(self) -> None:
        self._slices: dict[tuple[str, str], dict[str, Obj]] = {}
        self._devices: dict[tuple[str, str], dict[str, Obj]] = {}

    def put(self, slice_: Obj) -> None:
        """Hold a slice."""
        self._slices.setdefault(_pool_of(slice_), {})[slice_["metadata"]["name"]] = slice_
        self._read(_pool_of(slice_))

    def remove(self, slice_: Obj) -> None:
        """Let a slice go."""
        self._slices.get(_pool_of(slice_), {}).pop(slice_["metadata"]["name"], None)
        self._read(_pool_of(slice_))

    def device(self, driver: str, pool: str, name: str) -> Obj | None:
        """Return a published device, None if there is none."""
        return self._devices.get((driver, pool), {}).get(name)

    def devices(self) -> Iterator[tuple[str, str, str]]:
        """Yield driver, pool and name of each published device."""
        for (driver, pool), devices in self._devices.items():
            for name in devices:
                yield driver, pool, name

    def _read(self, pool: tuple[str, str]) -> None:
        """Read the devices of a pool again."""
        slices = list(self._slices[pool].values()) if pool in self._slices else []
        if not slices:
            self._slices.pop(pool, None)
            self._devices.pop(pool, None)
            return
        newest = max(_generation(slice_) for slice_ in slices)
        self._devices[pool] = {
            device["name"]: {"name": device["name"], **device.get("basic", device)}  # up to v1beta1 it is nested
            for slice_ in slices
            if _generation(slice_) == newest
            for device in slice_["spec"].get("devices") or ()
        }


def _pool_of(slice_: Obj) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _generation(slice_: Obj) -> int:
    generation: int = slice_["spec"]["pool"].get("generation") or 0
    return generation
