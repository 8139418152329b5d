"""The worst-case cost of a checked expression, in cel-go's units of about one simple operation.

The estimate is made of sizes and costs. Sizes are known of literals, of results, and of variables whose maps and
strings are limited by the API or by a schema: `device_sizes` has the limits of `device`. Costs per unit of size are in
`call_cost`. The sources are cel-go's `checker/cost.go` and `k8s.io/apiserver/pkg/cel/library/cost.go`. Numbers saturate
at 2^64-1, so an unknown size exceeds every limit.
"""

from __future__ import annotations

from understudy.cel.ast import Node
from understudy.cel.cost.coster import Coster
from understudy.cel.cost.estimate import SizeEstimator
from understudy.cel.cost.older_coster import OlderCoster
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version

_COSTERS = ByRelease[type[Coster]]({V1_33: Coster, V1_31: OlderCoster})


def estimate_cost(root: Node, version: Version, estimate_size: SizeEstimator) -> int:
    """Return the largest possible cost of one evaluation of a checked tree in a release (`EstimateCost`).

    estimate_size  returns the sizes of the parts of variables
    """
    return _COSTERS[version](version, estimate_size).cost(root).max
