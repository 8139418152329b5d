"""A stand-in for the kubelet of one node: DRA drivers register with it and prepare the claims of its pods.

It starts no containers: a pod runs as soon as its claims are prepared. Needs the extra `kubelet`.
"""
