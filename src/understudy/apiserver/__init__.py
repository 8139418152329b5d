"""The server: HTTP edge, request path, registry, storage, patches, watch."""
