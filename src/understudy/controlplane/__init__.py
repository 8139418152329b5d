"""Programs that run around an API server: controllers, the allocator of devices, scheduler and kubelet stand-ins.

They speak to the server over HTTP, as any client does, and so work with a real kube-apiserver as well, but for those
in `controllers`, which share its process. Each is opt-in. `server` has the API server that users start.
"""
