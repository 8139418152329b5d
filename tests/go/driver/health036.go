//go:build helper036

package main

import healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"

// healthServer is what a driver on the helper of 1.36 embeds to report the health of devices.
type healthServer struct {
	healthpb.UnimplementedDRAResourceHealthServer
}

// NodeWatchResources reports the health of all devices, and again with each change of it.
func (d *driver) NodeWatchResources(_ *healthpb.NodeWatchResourcesRequest, stream healthpb.DRAResourceHealth_NodeWatchResourcesServer) error {
	return d.watchHealth(stream.Context(), func(healths map[string]string) error {
		response := &healthpb.NodeWatchResourcesResponse{}
		for name, health := range healths {
			response.Devices = append(response.Devices, &healthpb.DeviceHealth{
				Device: &healthpb.DeviceIdentifier{PoolName: d.pool, DeviceName: name},
				Health: healthpb.HealthStatus(healthpb.HealthStatus_value[health]),
			})
		}
		return stream.Send(response)
	})
}
