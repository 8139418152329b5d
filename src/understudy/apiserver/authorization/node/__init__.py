"""Authorization of kubelets, by what their nodes need (`--authorization-mode=Node`)."""
