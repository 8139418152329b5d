"""Parts that the rules of several kinds of resource.k8s.io share."""
