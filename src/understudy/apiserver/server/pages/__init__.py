"""Pages that are no API resources: health checks, metrics, the control API."""
