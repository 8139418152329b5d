"""The interpreter of CEL: plans the evaluation of checked expressions, and evaluates them."""
