"""The differences between the allocators of the releases, and between the variants that a release has.

From 1.34 on a release has up to three allocators, and the features that are on decide which one runs: the first of
stable, incubating and experimental that knows them all (upstream: `structured/internal/…`). Everything else asks the
`Rules`. Read from the newest release downwards: each one is the next newer with some differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.rules import RulesOfRelease
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import dataclass


class Variant(Enum):
    """One of the allocators of a release (upstream: `AllocatorChannel`). Releases before 1.34 have one, the stable."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


class InvalidPools(Enum):
    """The treatment of a pool that has two devices of one name or, from 1.35 on, contradictory counters."""

    SKIPPED = "its devices are not looked at; if the claims do not fit, that is an error for this node"
    REFUSED = "the search ends with an error when it comes to the pool"
    REFUSED_WITH_DEVICE = "the search ends with an error when it comes to a device of the pool that selectors match"
    UNKNOWN = "the pool is treated as any other"


class Blocked(Enum):
    """The treatment of a request for all devices of which one cannot be allocated."""

    FAILS = "the request cannot be met"
    STOPS = "the claims do not fit, nothing else is tried"
    LEFT_OUT = "the other devices are allocated"


class CountersOf(Enum):
    """The devices and slices whose counters a device draws on."""

    POOL = "its pool"
    POOL_NAME = "all pools of that name, whatever their driver"
    SLICE = "its slice"


@dataclass(frozen=True)
class Rules(RulesOfRelease):
    """The rules of one allocator, with those of the newest release (incubating) as defaults.

    release     the release that the rules are those of
    variant     the allocator of that release
    enabled     the feature gates that are on, of those that the allocator knows

    How pools are gathered:
    sorted_pools         whether pools are visited in the order of driver and name, and slices in that of their names;
                         else in the order of the list (upstream: in random order, which users cannot rely on)
    own_slices_first     whether slices of the node itself come before those for several nodes and counters
    binding_last         whether pools in which a device has binding conditions are visited last
    binding_slices_last  whether slices with such devices come after the others of their pool
    whole_pools          whether slices for other nodes count when a pool is complete or obsolete
    counter_slices       whether shared counters stand in slices of their own
    counters_everywhere  whether those slices are for all nodes of the pool, and their devices are checked
    skips_counters       whether slices with shared counters are left out when partitionable devices are off
    checks_incomplete    whether incomplete pools can be invalid as well
    invalid_pools        what becomes of invalid pools
    takes_from_incomplete whether devices are taken from incomplete pools
    counts_newer_twice   whether the slice of a newer generation is added twice, so that its pool looks incomplete

    How requests are read:
    knows_capacity       whether devices may be shared by capacity, have distinct attributes and bind to nodes
    names_request_of_capacity  whether the error about capacity in a subrequest names the request
    class_selects_all    whether the selectors of the class apply to a request for all devices
    shares_first_matches whether the second subrequest for all devices reuses the answers for the first one
    limits_each_request  whether the number of devices is checked after each request; else at the end of the claim
    all_despite_use      whether all devices are all that have enough capacity while nobody takes anything of it

    How devices are searched:
    resumes              whether the next device of a request is searched after the previous one; else from the start
    limits_results       whether a subrequest for too many devices is passed over; else it fails as any other
    needs_a_device       whether a request for all devices fails if there is none
    blocked              what becomes of a request for all devices when one of them is not free
    returns_all          whether the devices of a request for all devices are given back when a later request fails
    stops_after_all      whether it is an error that a request after one for all devices cannot be met
    keeps_subrequest     whether a subrequest for all devices takes its second device for itself; else for the first one
    admin_once_per_claim whether a device is given to a claim only once, admin access or not
    undoes_failures      whether counters, marks and constraints are restored when a device turns out not to fit
    counters_of          what shares its counters with a device
    counts_in_parts      whether the counters of devices in use are subtracted again for each device (1.33)
    needs_partitions     whether a device that consumes counters is not allocated while partitionable devices are off
    shares_counters      whether a second share of a device consumes no counters
    shares_count         whether devices in use by shares consume counters
    bare_shares_count    whether a device is in use by shares that take no capacity
    refuses_amounts      whether an amount that cannot be rounded, or a negative one, ends the search; else it is
                         rounded as Go's integers are, and rounded amounts are not written as the step is
    compares_all         whether a value is compared with those of all devices; else with the latest one of each request
    effects              effects of taints that keep a device from being allocated; None: all
    capacity_by_position whether the capacity of a device is compared with that of another one, by mistake
    all_without_pool     whether a device of a request for all devices makes the scheduler crash if it consumes counters

    How results are written:
    admin_in_results     whether results say that they are for admin access, and are not in use then
    tolerations          whether results have the tolerations of the request
    merges_class_config  whether the configuration of a class is there once, with the names of its requests
    picks_claim_config   whether the claim's configuration is there for each request that it names
    shortens_config      whether it is there once, and configuration for all requests names none
    first_of_name        whether the node selector is that of the first slice with a device of that name
    """

    variant: Variant = Variant.INCUBATING
    sorted_pools: bool = True
    own_slices_first: bool = True
    binding_last: bool = True
    binding_slices_last: bool = False
    whole_pools: bool = True
    counter_slices: bool = True
    counters_everywhere: bool = False
    skips_counters: bool = True
    checks_incomplete: bool = False
    invalid_pools: InvalidPools = InvalidPools.SKIPPED
    takes_from_incomplete: bool = False
    counts_newer_twice: bool = False
    knows_capacity: bool = True
    names_request_of_capacity: bool = False
    class_selects_all: bool = True
    shares_first_matches: bool = False
    limits_each_request: bool = True
    all_despite_use: bool = True
    resumes: bool = True
    limits_results: bool = True
    needs_a_device: bool = True
    blocked: Blocked = Blocked.FAILS
    returns_all: bool = True
    stops_after_all: bool = False
    keeps_subrequest: bool = True
    admin_once_per_claim: bool = True
    undoes_failures: bool = True
    counters_of: CountersOf = CountersOf.POOL
    counts_in_parts: bool = False
    needs_partitions: bool = True
    shares_counters: bool = True
    shares_count: bool = True
    bare_shares_count: bool = True
    refuses_amounts: bool = True
    compares_all: bool = True
    effects: frozenset[str] | None = frozenset({"NoExecute", "NoSchedule"})
    capacity_by_position: bool = False
    all_without_pool: bool = False
    admin_in_results: bool = True
    tolerations: bool = True
    merges_class_config: bool = True
    picks_claim_config: bool = True
    shortens_config: bool = True
    first_of_name: bool = False

    @classmethod
    def _chosen(cls, version: Version, enabled: frozenset[Gate]) -> Rules:
        variants = _VARIANTS[version]
        known = enabled & frozenset[Gate]().union(*variants.values())
        if _BINDING_NEEDS_BOTH[version] and not known >= _BINDING:
            known -= _BINDING
        variant = next(variant for variant, supported in variants.items() if known <= supported)
        return replace(_RULES[version][variant], variant=variant, enabled=known)

    @property
    def admin_access(self) -> bool:
        """Report whether requests may ask for admin access."""
        return features.DRA_ADMIN_ACCESS in self.enabled or self.release < V1_32

    @property
    def prioritized_list(self) -> bool:
        """Report whether requests may have subrequests."""
        return features.DRA_PRIORITIZED_LIST in self.enabled

    @property
    def partitionable_devices(self) -> bool:
        """Report whether devices may consume shared counters and say themselves which nodes they are for."""
        return features.DRA_PARTITIONABLE_DEVICES in self.enabled

    @property
    def device_taints(self) -> bool:
        """Report whether taints keep devices from being allocated."""
        return features.DRA_DEVICE_TAINTS in self.enabled

    @property
    def consumable_capacity(self) -> bool:
        """Report whether devices can be shared by capacity."""
        return features.DRA_CONSUMABLE_CAPACITY in self.enabled

    @property
    def binding_conditions(self) -> bool:
        """Report whether devices with binding conditions can be allocated."""
        return self.enabled >= _BINDING or self.release < V1_34

    @property
    def binding_conditions_in_results(self) -> bool:
        """Report whether results have the binding conditions of their devices."""
        return features.DRA_DEVICE_BINDING_CONDITIONS in self.enabled

    @property
    def fractions(self) -> bool:
        """Report whether amounts are rounded to steps in thousandths."""
        return features.DRA_FRACTIONAL_CAPACITY_RANGE in self.enabled

    @property
    def derived_attributes(self) -> bool:
        """Report whether requests may derive attributes of devices by expressions."""
        return features.DRA_DERIVED_ATTRIBUTES in self.enabled

    @property
    def list_attributes(self) -> bool:
        """Report whether constraints compare attributes as sets of values."""
        return features.DRA_LIST_TYPE_ATTRIBUTES in self.enabled

    @property
    def optional_operations(self) -> bool:
        """Report whether devices for which nodes do nothing can be allocated."""
        return features.DRA_OPTIONAL_NODE_OPERATIONS in self.enabled

    @property
    def compatibility_groups(self) -> bool:
        """Report whether devices of one counter set go together by groups; else slices with groups are ignored."""
        return features.DRA_DEVICE_COMPATIBILITY_GROUPS in self.enabled or self.release < V1_37


_BASIC = frozenset(
    {
        features.DRA_ADMIN_ACCESS,
        features.DRA_PRIORITIZED_LIST,
        features.DRA_PARTITIONABLE_DEVICES,
        features.DRA_DEVICE_TAINTS,
    }
)
_BINDING = frozenset({features.DRA_DEVICE_BINDING_CONDITIONS, features.DRA_RESOURCE_CLAIM_DEVICE_STATUS})
_CAPACITY = _BASIC | _BINDING | {features.DRA_CONSUMABLE_CAPACITY}

_FRACTIONS = _CAPACITY | {features.DRA_FRACTIONAL_CAPACITY_RANGE}
_ALL = _FRACTIONS | {
    features.DRA_DERIVED_ATTRIBUTES,
    features.DRA_DEVICE_COMPATIBILITY_GROUPS,
    features.DRA_LIST_TYPE_ATTRIBUTES,
    features.DRA_OPTIONAL_NODE_OPERATIONS,
}

# The feature gates that allocators of some release ask for. Upstream: `AllocatorFeatures`.
GATES = _ALL

# The feature gates that each allocator of a release supports, in the order in which the allocators are tried.
# Up to 1.36 kube-scheduler does not pass DRAListTypeAttributes on to any of them.
_VARIANTS: ByRelease[Mapping[Variant, frozenset[Gate]]] = ByRelease(
    {
        V1_37: {Variant.STABLE: _BASIC, Variant.INCUBATING: _FRACTIONS, Variant.EXPERIMENTAL: _ALL},
        V1_36: {Variant.STABLE: _BASIC, Variant.INCUBATING: _CAPACITY},
        V1_34: {Variant.STABLE: frozenset(), Variant.INCUBATING: _BASIC, Variant.EXPERIMENTAL: _CAPACITY},
        V1_33: {Variant.STABLE: _BASIC},
        V1_32: {Variant.STABLE: frozenset({features.DRA_ADMIN_ACCESS})},
        V1_31: {Variant.STABLE: frozenset()},
    }
)
# Whether binding conditions are off as long as one of their two gates is off.
_BINDING_NEEDS_BOTH = ByRelease({V1_35: True, V1_31: False})

LATEST = Rules()
_V37_STABLE = replace(
    LATEST,
    sorted_pools=False,
    own_slices_first=False,
    binding_last=False,
    counters_everywhere=True,
    knows_capacity=False,
    resumes=False,
)
_V36 = replace(
    LATEST,
    counters_everywhere=True,
    limits_each_request=False,
    all_despite_use=False,
    bare_shares_count=False,
    refuses_amounts=False,
    compares_all=False,
    shortens_config=False,
)
_V36_STABLE = replace(
    _V36, sorted_pools=False, own_slices_first=False, binding_last=False, knows_capacity=False, resumes=False
)
_V35_EXPERIMENTAL = replace(
    _V36,
    sorted_pools=False,
    own_slices_first=False,
    binding_slices_last=True,
    shares_first_matches=True,
    resumes=False,
    keeps_subrequest=False,
    undoes_failures=False,
    counters_of=CountersOf.POOL_NAME,
    shares_count=False,
    all_without_pool=True,
)
_V35_INCUBATING = replace(_V35_EXPERIMENTAL, binding_last=False, binding_slices_last=False, knows_capacity=False)
_V35_STABLE = replace(
    _V35_INCUBATING, counter_slices=False, skips_counters=False, checks_incomplete=True, tolerations=False
)
_V34_EXPERIMENTAL = replace(
    _V35_EXPERIMENTAL,
    whole_pools=False,
    counter_slices=False,
    skips_counters=False,
    checks_incomplete=True,
    invalid_pools=InvalidPools.REFUSED,
    takes_from_incomplete=True,
    names_request_of_capacity=True,
    counters_of=CountersOf.SLICE,
    shares_counters=False,
    effects=None,
    capacity_by_position=True,
    all_without_pool=False,
    tolerations=False,
)
_V34 = replace(_V34_EXPERIMENTAL, binding_last=False, binding_slices_last=False, knows_capacity=False)
_V33 = replace(
    _V34,
    skips_counters=True,
    limits_results=False,
    returns_all=False,
    admin_once_per_claim=False,
    counts_in_parts=True,
    needs_partitions=False,
    merges_class_config=False,
)
_V32 = replace(
    _V33,
    skips_counters=False,
    invalid_pools=InvalidPools.REFUSED_WITH_DEVICE,
    needs_a_device=False,
    blocked=Blocked.STOPS,
    picks_claim_config=False,
)
_V31 = replace(
    _V32,
    invalid_pools=InvalidPools.UNKNOWN,
    counts_newer_twice=True,
    class_selects_all=False,
    blocked=Blocked.LEFT_OUT,
    stops_after_all=True,
    admin_in_results=False,
    first_of_name=True,
)
_RULES: ByRelease[Mapping[Variant, Rules]] = ByRelease(
    {
        V1_37: {Variant.STABLE: _V37_STABLE, Variant.INCUBATING: LATEST, Variant.EXPERIMENTAL: LATEST},
        V1_36: {Variant.STABLE: _V36_STABLE, Variant.INCUBATING: _V36},
        V1_35: {
            Variant.STABLE: _V35_STABLE,
            Variant.INCUBATING: _V35_INCUBATING,
            Variant.EXPERIMENTAL: _V35_EXPERIMENTAL,
        },
        V1_34: {Variant.STABLE: _V34, Variant.INCUBATING: _V34, Variant.EXPERIMENTAL: _V34_EXPERIMENTAL},
        V1_33: {Variant.STABLE: _V33},
        V1_32: {Variant.STABLE: _V32},
        V1_31: {Variant.STABLE: _V31},
    }
)
