"""The kinds of resource.k8s.io, Dynamic Resource Allocation (KEP-4381): claims, templates, classes, slices.

Each rule is a function of an object and the request's context; `common.release_rules` says what differs between
releases.
"""
