"""The function libraries of CEL environments: `DECLARATIONS` for the checker, and `FUNCTIONS` by overload id."""
