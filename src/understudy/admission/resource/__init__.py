"""What may be stored of resource.k8s.io, Dynamic Resource Allocation (KEP-4381).

Validators take a value of the internal form, its path and the `Limits` of the release, and return every error.
"""
