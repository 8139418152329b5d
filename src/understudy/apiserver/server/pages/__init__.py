"""Pages, which are no API resources: health checks, metrics, the control API; and the table that finds them."""
