"""A stand-in for kube-scheduler: it picks nodes for pods, and devices for their claims.

    framework/   statuses, pods and nodes as plugins see them, the interface of plugins, the order in which they run
    plugins/     one module for each plugin of kube-scheduler's default profile that is here
    cache        the nodes with their pods, including those with a binding on its way
    claims       the claims and the devices in use, including those with an allocation on its way
    pod_groups   the groups of pods, and how many pods each has
    queued       what waits: a pod, or the pods of a group together
    queue        the pods that wait: now, after a pause, or until something changes
    cycle        one attempt to find a node for a pod
    group_cycle  one attempt to find nodes for the pods of a group
    binding      the requests of one attempt: claims, binding, condition, event
    component    puts it all behind the informers of a server; the entry point `run`

Upstream: `k8s.io/kubernetes/pkg/scheduler`.
"""

from understudy.controlplane.scheduler.component import run

__all__ = ["run"]
