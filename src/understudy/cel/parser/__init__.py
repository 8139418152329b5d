"""The parser of CEL expressions: syntax trees with macros expanded, and syntax errors in cel-go's words."""
