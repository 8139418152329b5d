"""What a release of resource.k8s.io allows, and how it words what it refuses.

What differs between releases stands here, and only here: validators ask their `Limits`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from understudy.machinery.releases.version import V1_31, V1_32, Version
from understudy.machinery.validation.field import FieldError, Path, too_long, too_many

REQUESTS = 32
CONSTRAINTS = 32
SELECTORS = 32
CONFIGS = 32
RESULTS = 32
ALLOCATED_CONFIGS = 2 * CONFIGS  # from class and claim
DEVICES = 128
ATTRIBUTES_AND_CAPACITIES = 32
POTENTIAL_NODES = 128

POOL_NAME_LENGTH = 253
DRIVER_LENGTH = 63
IDENTIFIER_LENGTH = 32
ATTRIBUTE_VALUE_LENGTH = 64

CONDITIONS = 8
ADDRESSES = 16
INTERFACE_LENGTH = 256
HARDWARE_ADDRESS_LENGTH = 128


@dataclass(frozen=True)
class Limits:
    """One release. None is no limit.

    reserved_for        entries of a claim's status.reservedFor
    expression_length   of a CEL expression, in bytes; longer ones are not compiled
    expression_cost     the estimated cost of a CEL expression
    opaque_length       of the JSON of opaque parameters
    counts_items        a list that is too long is told in items, not as a text that is too long
    keys_in_paths       what is wrong with the key of a map is told at [key], not at the map
    revalidates         an allocation is validated with every change of the status, not only when it is new
    prefix              what the domain of a qualified name is called
    prefix_at_domain    a fully qualified name without a domain lacks `.domain`, instead of being invalid
    one_value           what is said of an attribute with several values
    one_term            what is said of a slice's node selector with several terms
    dumps_slices        the whole spec stands in the error about the nodes of a slice
    any_node_value      node selectors may ask for values that no label can have
    shows_deallocating  the table says which claims are to be deallocated
    known               what is validated was stored before: sizes do not matter, CEL may be of this very release
    """

    release: Version
    reserved_for: int = 256
    expression_length: int | None = 10 * 1024
    expression_cost: int | None = 1_000_000
    opaque_length: int | None = 10 * 1024
    counts_items: bool = True
    keys_in_paths: bool = True
    revalidates: bool = False
    prefix: str = "domain"
    prefix_at_domain: bool = False
    one_value: str = "exactly one value must be specified"
    one_term: str = "must have exactly one node selector term"
    dumps_slices: bool = False
    any_node_value: bool = False
    shows_deallocating: bool = False
    known: bool = False

    @staticmethod
    def of(release: Version) -> Limits:
        return _RELEASES[release]

    @cached_property
    def stored(self) -> Limits:
        """The same for what was stored before."""
        return replace(self, known=True, opaque_length=None)

    def too_many(self, path: Path, actual: int, limit: int) -> FieldError:
        return too_many(path, actual, limit) if self.counts_items else too_long(path, limit)


_RELEASES = {
    limits.release: limits
    for limits in (
        Limits(
            V1_31,
            reserved_for=32,
            expression_length=None,
            expression_cost=None,
            opaque_length=None,
            counts_items=False,
            keys_in_paths=False,
            revalidates=True,
            prefix="prefix",
            prefix_at_domain=True,
            one_value="exactly one field must be specified",
            one_term="must have exactly one selector term",
            dumps_slices=True,
            any_node_value=True,
            shows_deallocating=True,
        ),
        Limits(V1_32),
    )
}
