"""Server-side apply and `metadata.managedFields`: which manager owns which field (upstream:
`apimachinery/pkg/util/managedfields`).
"""
