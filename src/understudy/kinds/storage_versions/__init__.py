"""Storage versions of the API servers, and their migrations."""
