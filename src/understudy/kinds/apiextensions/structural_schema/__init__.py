"""Schemas of custom resources at work: what upstream's `apiserver/schema` and kube-openapi's `validate` do to values.

Each module compiles one use of a schema into closures; `schema.StructuralSchema` holds them all for one version of a
definition. Values are JSON as Go keeps it: integers of 64 bits are `int`, all other numbers are `float`. No function
edits a value: where something changes it returns a copy of the containers on the way, and shares the rest.
"""
