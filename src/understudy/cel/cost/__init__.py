"""The estimated cost of a CEL expression, computed as cel-go and Kubernetes compute it."""
