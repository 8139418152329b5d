"""understudy: a stand-in for the Kubernetes API server."""
