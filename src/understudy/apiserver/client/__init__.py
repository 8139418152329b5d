"""The client inside the server's process, and the manifests that it applies."""
