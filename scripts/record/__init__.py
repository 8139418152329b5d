"""Record what a real kube-apiserver answers, and what a release of Kubernetes declares."""
