"""The kinds of lifecycle.k8s.io: evictions and requests for them."""
