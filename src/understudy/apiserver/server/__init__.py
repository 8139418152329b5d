"""The server: HTTP edge, pages beside the API, bootstrap objects, life cycle."""
