"""The base of every program around an API server: HTTP client, informers, work queue, events. Upstream: client-go."""
