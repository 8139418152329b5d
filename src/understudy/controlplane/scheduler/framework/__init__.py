"""The parts that the scheduler and its plugins share. Upstream: `pkg/scheduler/framework`."""
