"""What is known of every type of a release: its Go struct, its OpenAPI schema, and the kinds that there are."""
