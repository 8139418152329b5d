//go:build !helper036

package main

import (
	"context"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// healthServer is empty: every driver on the helper of 1.37 reports the health of devices.
type healthServer struct{}

// WatchHealthStatus reports the health of all devices, and again with each change of it.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	known := map[string]kubeletplugin.HealthStatus{"HEALTHY": kubeletplugin.HealthStatusHealthy, "UNHEALTHY": kubeletplugin.HealthStatusUnhealthy}
	return d.watchHealth(ctx, func(healths map[string]string) error {
		var report kubeletplugin.DeviceHealthReport
		for name, health := range healths {
			report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{PoolName: d.pool, DeviceName: name, Health: known[health]})
		}
		select {
		case reports <- report:
		case <-ctx.Done():
		}
		return nil
	})
}
