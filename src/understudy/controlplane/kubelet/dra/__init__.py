"""The kubelet's part in Dynamic Resource Allocation. Upstream: `pkg/kubelet/cm/dra`."""
