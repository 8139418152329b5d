"""The evaluation of checked CEL expressions."""
