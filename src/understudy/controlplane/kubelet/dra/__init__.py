"""What the kubelet does for Dynamic Resource Allocation. Upstream: `pkg/kubelet/cm/dra`."""
