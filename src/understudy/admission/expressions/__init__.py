"""The evaluation of CEL expressions about a request: what they see, a policy's own variables, budgets and errors."""
