"""Tells a collector of OpenTelemetry where the time of requests goes, as `--tracing-config-file` says."""
