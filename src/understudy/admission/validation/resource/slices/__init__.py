"""Validation of devices that drivers publish, in ResourceSlices, and of kinds that are about them."""
