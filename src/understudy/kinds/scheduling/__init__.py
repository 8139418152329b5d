"""The kinds of scheduling.k8s.io: priority classes, workloads and pod groups."""
