"""Devices that drivers publish, in ResourceSlices, and kinds that are about them."""
