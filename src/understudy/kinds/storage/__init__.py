"""The kinds of storage.k8s.io: storage classes, CSI drivers and nodes, storage capacities, volume attachments."""
