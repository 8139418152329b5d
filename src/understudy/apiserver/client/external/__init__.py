"""Other people's clients: kubectl, and libraries in Python, that ask a server by its kubeconfig."""
