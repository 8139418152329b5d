"""The server: life cycle and wiring, HTTP edge, filters, pages outside the API, bootstrap objects, webhook calls."""
