"""The server: HTTP edge, filters, pages beside the API, bootstrap objects, life cycle."""
