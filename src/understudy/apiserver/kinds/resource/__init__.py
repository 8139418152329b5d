"""The kinds of resource.k8s.io, Dynamic Resource Allocation (DRA)."""
