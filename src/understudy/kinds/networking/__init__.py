"""The kinds of networking.k8s.io: ingresses, ingress classes, network policies, IP addresses, service CIDRs."""
