"""etcd as an engine: many replicas, and kube-apiservers beside them, share what one etcd keeps."""
