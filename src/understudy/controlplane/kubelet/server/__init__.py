"""The port at which the API server asks a kubelet for logs, and for commands and ports of pods."""
