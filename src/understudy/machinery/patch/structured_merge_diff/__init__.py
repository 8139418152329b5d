"""Values with a schema and sets of field paths, as `sigs.k8s.io/structured-merge-diff` (v4) defines them."""
