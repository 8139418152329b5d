"""The estimated cost of a CEL expression, as cel-go computes it."""
