"""The parser of CEL: expressions to syntax trees, macros expanded, and upstream's words for syntax errors."""
