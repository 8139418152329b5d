"""The rules and messages of resource.k8s.io that differ between releases.

What differs between releases is here, and only here: validators ask their `ReleaseRules`. Read from the newest
release downwards: each one is the next newer with some differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from understudy.kinds.context import Context
from understudy.kinds.resource.common.device_id import DeviceID
from understudy.kinds.resource.common.flat_form import flat_claim
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.rules import RulesOfRelease
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.field import FieldError, Path, invalid, required, too_long, too_many, type_invalid

_GATES = (
    features.DRA_CONSUMABLE_CAPACITY,
    features.DRA_FRACTIONAL_CAPACITY_RANGE,
    features.DRA_LIST_TYPE_ATTRIBUTES,
)

REQUESTS = 32
CONSTRAINTS = 32
SELECTORS = 32
CONFIGS = 32
RESULTS = 32
ALLOCATED_CONFIGS = 2 * CONFIGS  # from class and claim
POTENTIAL_NODES = 128
SUBREQUESTS = 8
BINDING_CONDITIONS = 4

POOL_NAME_LENGTH = 253
DRIVER_LENGTH = 63
IDENTIFIER_LENGTH = 32

CONDITIONS = 8
ADDRESSES = 16
INTERFACE_LENGTH = 256
HARDWARE_ADDRESS_LENGTH = 128


_ONE_VALUE = "exactly one value must be specified"


def _invalid_without_value(path: Path) -> FieldError:
    return invalid(path, "", _ONE_VALUE)


def _required_value(path: Path) -> FieldError:
    return required(path, _ONE_VALUE)


@dataclass(frozen=True)
class ReleaseRules(RulesOfRelease):
    """The rules of one release, with the newest one's as defaults. None is no limit.

    release             the release that the rules are those of
    enabled             the feature gates that are on, of those that validators ask for (`_GATES`)
    reserved_for        entries of a claim's status.reservedFor
    expression_length   bytes of a CEL expression; longer ones are not compiled
    expression_cost     the estimated cost of a CEL expression
    compiles_stored     whether stored CEL expressions are checked again
    opaque_length       bytes of the JSON of opaque parameters
    counts_items        whether the error of a list that is too long counts items; else it is that of a text
    stops_at_limit      whether the items of a list that is too long are not checked
    names_duplicates    whether a duplicate is reported at the field that holds its key; else at the item
    keys_in_paths       whether the error of a map's key is reported at [key]; else at the map
    shortens_keys       whether paths shorten long keys of maps
    result_tolerations  whether the tolerations of allocated devices are checked
    revalidates         whether every change of a status validates the allocation; else only when it is new
    prefix              the name of the domain of a qualified name
    prefix_at_domain    whether a fully qualified name without a domain lacks `.domain`; else it is invalid
    no_domain           the text for a fully qualified name without a domain
    requires_names      whether an empty qualified name, or part of one, is a missing value; else it is invalid
    identifier_error    the error of a wrong C identifier
    checks_empty_driver whether an empty driver is missing and invalid; else it is only missing
    subrequests         whether a reference may name a request and a subrequest of it
    checks_both_kinds   whether a request that has both `exactly` and `firstAvailable` is checked in both
    taint_effects       effects of taints and tolerations, sorted
    admin_label         the label of namespaces whose claims may have adminAccess; None: all may
    raw_object          the text for opaque parameters that are not an object
    canonical_addresses whether addresses of network devices must be in canonical form
    device_id           the text that stands for a device in errors
    one_value           the text for an attribute with several values
    no_value            the error of an attribute without a value
    attribute_values    values of a device's attributes, lists counted by their items
    counts_attributes_last  whether too many attributes are reported after what is wrong in them; else before
    taints              taints of a device
    limits_advanced_devices  whether a slice may have fewer devices if they have taints, lists or consume counters
    devices_or_counters whether a slice must not have both devices and counters
    counters_of_slice   whether devices consume counters of their own slice, which are limited together
    nodes_per_device    whether devices may say themselves which nodes they are for
    bounds_ranges       whether amounts of a capacity's range have bounds, and errors of the default are at `default`
    renews_time_added   whether a rule's taint whose effect changes is added again
    warns_of_upper_case whether a slice's driver in upper case is warned of
    one_term            the text for a slice's node selector with several terms
    dumps_slices        whether the error about the nodes of a slice shows the whole spec
    any_node_value      whether node selectors may ask for values that no label can have
    shows_deallocating  whether the table shows which claims are to be deallocated
    flat                whether errors show paths and values of the flat form, which was the internal one; see flat_form
    """

    reserved_for: int = 256
    expression_length: int | None = 10 * 1024
    expression_cost: int | None = 1_000_000
    compiles_stored: bool = False
    opaque_length: int | None = 10 * 1024
    counts_items: bool = True
    stops_at_limit: bool = True
    names_duplicates: bool = False
    keys_in_paths: bool = False
    shortens_keys: bool = True
    result_tolerations: bool = True
    revalidates: bool = False
    prefix: str = "domain"
    prefix_at_domain: bool = False
    no_domain: str = "a fully qualified name must be a domain and a name separated by a slash"
    requires_names: bool = False
    identifier_error: Callable[[Path, Any, str], FieldError] = invalid
    checks_empty_driver: bool = False
    subrequests: bool = True
    checks_both_kinds: bool = False
    taint_effects: tuple[str, ...] = ("NoExecute", "NoSchedule", "None")
    admin_label: str | None = "resource.kubernetes.io/admin-access"
    raw_object: str = "must be a valid JSON object"
    canonical_addresses: bool = True
    device_id: Callable[[DeviceID], str] = DeviceID.json
    one_value: str = _ONE_VALUE
    no_value: Callable[[Path], FieldError] = _invalid_without_value
    attribute_values: int | None = 48
    counts_attributes_last: bool = False
    taints: int = 16
    limits_advanced_devices: bool = True
    devices_or_counters: bool = True
    counters_of_slice: bool = False
    nodes_per_device: bool = True
    bounds_ranges: bool = True
    renews_time_added: bool = True
    warns_of_upper_case: bool = True
    one_term: str = "must have exactly one node selector term"
    dumps_slices: bool = False
    any_node_value: bool = False
    shows_deallocating: bool = False
    flat: bool = False

    @classmethod
    def _chosen(cls, version: Version, enabled: frozenset[Gate]) -> ReleaseRules:
        return replace(_RULES[version], enabled=enabled)

    @staticmethod
    def in_force(ctx: Context) -> ReleaseRules:
        """Return the rules for a request: those of its release, with the feature gates that are on."""
        return ReleaseRules.of(ctx.release, frozenset(gate for gate in _GATES if ctx.gates[gate]))

    def too_many(self, path: Path, actual: int, limit: int) -> FieldError:
        """Return the error of a list with too many items."""
        return too_many(path, actual, limit) if self.counts_items else too_long(path, limit)

    def exactly(self, path: Path) -> Path:
        """Return the path of what a request at `path` asks for, if it is for one kind of device."""
        return path if self.flat else path.child("exactly")

    def basic(self, path: Path) -> Path:
        """Return the path of what a device at `path` is."""
        return path.child("basic") if self.flat else path

    def shown_claim(self, spec: Obj) -> Obj:
        """Return the spec of a claim in the form that errors show."""
        return flat_claim(spec) if self.flat else spec


LATEST = ReleaseRules()
_V36 = replace(LATEST, bounds_ranges=False, compiles_stored=True, result_tolerations=False)
_V35 = replace(_V36, keys_in_paths=True, attribute_values=None, renews_time_added=False)
_V34 = replace(
    _V35,
    stops_at_limit=False,
    names_duplicates=True,
    no_domain="must include a domain",
    requires_names=True,
    checks_empty_driver=True,
    checks_both_kinds=True,
    taint_effects=("NoExecute", "NoSchedule"),
    taints=4,
    no_value=_required_value,
    limits_advanced_devices=False,
    devices_or_counters=False,
    counters_of_slice=True,
    warns_of_upper_case=False,
    device_id=DeviceID.empty_json,
)
_V33 = replace(
    _V34,
    identifier_error=type_invalid,
    admin_label="resource.k8s.io/admin-access",
    raw_object="parameters must be a valid JSON object",
    device_id=DeviceID.__str__,
)
_V32 = replace(
    _V33,
    subrequests=False,
    admin_label=None,
    canonical_addresses=False,
    counts_attributes_last=True,
    nodes_per_device=False,
    flat=True,
)
_V31 = replace(
    _V32,
    reserved_for=32,
    expression_length=None,
    expression_cost=None,
    opaque_length=None,
    counts_items=False,
    keys_in_paths=False,
    shortens_keys=False,
    revalidates=True,
    prefix="prefix",
    prefix_at_domain=True,
    one_value="exactly one field must be specified",
    one_term="must have exactly one selector term",
    dumps_slices=True,
    any_node_value=True,
    shows_deallocating=True,
)
_RULES = ByRelease({V1_37: LATEST, V1_36: _V36, V1_35: _V35, V1_34: _V34, V1_33: _V33, V1_32: _V32, V1_31: _V31})
