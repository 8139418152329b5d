"""The type checker of CEL: declarations, environments, and validators of checked expressions."""
