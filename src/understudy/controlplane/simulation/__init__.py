"""A whole control plane on a clock that jumps: hours in seconds, and the same again for the same seed.

loop         an event loop whose time jumps to whatever is due next
kubelets     the kubelets of all nodes
node         one node: its kubelet, its pods and its drivers
drivers      drivers that publish slices and prepare claims
failures     when nodes and drivers fail
workload     pods that come and go
persistence  requests that are made until they succeed
history      what was written, and what failed
settings     settings as a text
simulation   puts it all together
"""
