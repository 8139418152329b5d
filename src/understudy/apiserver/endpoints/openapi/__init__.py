"""The OpenAPI documents, v2 and v3."""
