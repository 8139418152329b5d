"""The plugins of kube-scheduler's default profile that are here. The others have nothing to say here about any pod.

Missing are inter-pod affinity, topology spread, volumes, preemption itself, images and everything that only scores.
"""
