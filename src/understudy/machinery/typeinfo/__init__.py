"""Type information of a release: Go structs with their OpenAPI schemas, and the kinds that each scheme registers."""
