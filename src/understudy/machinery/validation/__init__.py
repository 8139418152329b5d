"""Field paths and field errors, names and labels, and the values that errors show (upstream: `validation/field`)."""
