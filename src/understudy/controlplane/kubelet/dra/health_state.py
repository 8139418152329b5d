"""The file with the health of devices, which a kubelet that is started again goes on with.

It has the format of the real kubelet. Upstream: `DevicesHealthMap`.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from understudy.controlplane.kubelet.files import replace_file
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases.version import V1_35, V1_36, Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import parse_timestamp

log = logging.getLogger(__name__)

FILE = "dra_health_state"
DEFAULT_TIMEOUT = 30.0  # seconds until a report counts no more
_SECOND = 1_000_000_000  # in nanoseconds, which Go counts durations in


@dataclass(frozen=True)
class Health:
    """The health of a device as its driver reports it, and for how many seconds the report counts."""

    health: str = "Unknown"
    message: str = ""
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True)
class Report:
    """The health of a device, and when it was reported, in seconds since 1970."""

    health: Health
    at: float


Reports = dict[str, dict[tuple[str, str], Report]]  # by driver; by pool and device


def read_health_state(root: Path) -> Reports:
    """Return the reports that a kubelet with this folder knew last, none if there is no file or if it is broken."""
    try:
        drivers = orjson.loads((root / FILE).read_bytes())
        return {
            driver: {
                (device["PoolName"], device["DeviceName"]): _report_of(device) for device in state["Devices"].values()
            }
            for driver, state in drivers.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        log.warning("Failed to load health checkpoint, proceeding with empty cache: %s", why)
        return {}


def write_health_state(root: Path, reports: Reports, version: Version) -> None:
    """Replace the file. Timeouts are in it from 1.35 on, messages from 1.36 on."""
    state = {
        driver: {
            "Devices": {
                f"{pool}/{device}": _device(pool, device, report, version)
                for (pool, device), report in sorted(devices.items())
            }
        }
        for driver, devices in sorted(reports.items())
    }
    replace_file(root / FILE, encode(state))


def _device(pool: str, device: str, report: Report, version: Version) -> dict[str, Any]:
    health = report.health
    at = datetime.fromtimestamp(report.at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return {
        "PoolName": pool,
        "DeviceName": device,
        "Health": health.health,
        "LastUpdated": f"{at}Z",
        **({"HealthCheckTimeout": int(health.timeout * _SECOND)} if version >= V1_35 else {}),
        **({"Message": health.message} if version >= V1_36 else {}),
    }


def _report_of(device: dict[str, Any]) -> Report:
    timeout = device.get("HealthCheckTimeout", 0) / _SECOND or DEFAULT_TIMEOUT
    health = Health(device["Health"], device.get("Message", ""), timeout)
    return Report(health, parse_timestamp(device["LastUpdated"]))
