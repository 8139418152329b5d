"""Validation of pods and pod templates.

The checks are in the order of the real server, which clients see in lists of errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common import objectmeta
from understudy.kinds.common.formats import (
    MAX_INT32,
    choice,
    invalid_texts,
    ip,
    label,
    labels,
    loose_subdomain,
    qualified,
    range_text,
    subdomain,
)
from understudy.kinds.context import Context
from understudy.kinds.core.pods import annotations as pod_annotations
from understudy.kinds.core.pods.containers import containers, env, pod_resources, resources, security
from understudy.kinds.core.pods.containers_of import with_paths
from understudy.kinds.core.pods.pod_options import Options, options
from understudy.kinds.core.pods.validation import scheduling
from understudy.kinds.core.pods.volumes import pod_volumes
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, V1_37, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, required, too_long
from understudy.machinery.validation.names import dns_subdomain_texts, size, subdomain_name

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_HOSTNAME = 64
_SPEC, _META = Path("spec"), Path("metadata")


def create(pod: Obj, ctx: Context) -> Errors:
    """Check a new pod (upstream: `ValidatePodCreate`)."""
    spec_, metadata = pod["spec"], pod["metadata"]
    errors = whole(pod, options(ctx.release, ctx.gates, is_pod=True))
    if spec_.get("ephemeralContainers"):
        errors.append(forbidden(_SPEC.child("ephemeralContainers"), "cannot be set on create"))
    if spec_.get("nodeName") and spec_.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden(_SPEC.child("nodeName"), text))
    return errors + pod_annotations.matching(metadata.get("annotations") or {}, spec_, _SPEC)


def whole(pod: Obj, opts: Options) -> Errors:
    """Check annotations and spec of a pod, on create and on each update, and what pods but no templates must meet."""
    pod_spec, metadata = pod["spec"], pod["metadata"]
    errors = pod_annotations.validate(metadata.get("annotations") or {}, pod_spec, _META.child("annotations"))
    errors += spec(pod_spec, metadata, _SPEC, opts)
    if not pod_spec.get("serviceAccountName"):
        errors += _tokens_without_account(pod_spec)
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(pod_spec.get(kind) or ()):
            errors += containers.trimmed_image(container, _SPEC.child(kind).index(i))
    return errors


def _tokens_without_account(pod_spec: Obj) -> Errors:
    text = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(
            _SPEC.child("volumes").index(i).child("projected", "sources").index(j).child("serviceAccountToken"), text
        )
        for i, volume in enumerate(pod_spec.get("volumes") or ())
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]


def template(pod_template: Obj | None, path: Path, opts: Options) -> Errors:
    """Check a PodTemplateSpec (upstream: `ValidatePodTemplateSpec`)."""
    pod_template = pod_template or {}
    metadata, inner = pod_template.get("metadata") or {}, pod_template.get("spec") or {}
    errors = objectmeta.label_errors(metadata.get("labels"), path.child("labels"))
    errors += objectmeta.annotation_errors(metadata.get("annotations"), path.child("annotations"))
    errors += pod_annotations.validate(metadata.get("annotations") or {}, inner, path.child("annotations"))
    errors += spec(inner, {}, path.child("spec"), opts)
    errors += pod_annotations.matching(metadata.get("annotations") or {}, inner, path.child("spec"))
    if inner.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(path.child("spec", "ephemeralContainers"), text))
    return errors


def spec(pod_spec: Obj, metadata: Obj, path: Path, opts: Options) -> Errors:
    """Check a PodSpec (upstream: `ValidatePodSpec`). `metadata` is the pod's, {} for a template."""
    valid, errors = pod_volumes.validate(pod_spec.get("volumes") or (), metadata, path.child("volumes"), opts)
    claims = pod_spec.get("resourceClaims") or ()
    pod = containers.Surroundings(
        volumes=valid,
        claims=frozenset(c["name"] for c in claims if c.get("name")),
        restart_policy=pod_spec.get("restartPolicy", ""),
        grace=pod_spec.get("terminationGracePeriodSeconds"),
        system=None if pod_spec.get("os") is None else pod_spec["os"].get("name", ""),
        host_users=pod_spec.get("hostUsers") is not False,
        opts=opts,
    )
    regular, initial = pod_spec.get("containers") or [], pod_spec.get("initContainers") or []
    errors += _claims(claims, metadata, path.child("resourceClaims"), opts.version)
    errors += containers.regular(regular, path.child("containers"), pod)
    errors += containers.initial(initial, regular, path.child("initContainers"), pod)
    extra = pod_spec.get("ephemeralContainers") or []
    errors += containers.ephemeral(extra, [*regular, *initial], path.child("ephemeralContainers"), pod)
    if opts.pod_resources:
        errors += pod_resources.validate(pod_spec, pod.claims, path.child("resources"), opts.version)
    return (
        errors
        + _policies(pod_spec, path, opts)
        + _placement(pod_spec, path, opts)
        + _identity(pod_spec, path)
        + _system(pod_spec, path, opts)
    )


def _claims(items: Sequence[Obj], metadata: Obj, path: Path, version: Version) -> Errors:
    if version >= V1_33 and pod_annotations.MIRROR in (metadata.get("annotations") or ()):
        return [forbidden(Path().key(""), "static pods do not support resource claims") for _ in items]
    return resource_claims(items, path)


def resource_claims(items: Sequence[Obj], path: Path) -> Errors:
    """Check `resourceClaims`: each has a different name and either a claim or a template."""
    errors: Errors = []
    seen: set[str] = set()
    for i, claim in enumerate(items):
        here, name = path.index(i), claim.get("name", "")
        if not name:
            errors.append(required(here.child("name")))
        elif name in seen:
            errors.append(duplicate(here.child("name"), name))
        else:
            errors += label(name, here.child("name"))
            seen.add(name)
        errors += _claim_source(claim, here)
    return errors


def _claim_source(claim: Obj, path: Path) -> Errors:
    present = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name) is not None]
    errors: Errors = []
    if len(present) != 1:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        if present:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        bad_value = Typed(claim, "k8s.io/kubernetes/pkg/apis/core.PodResourceClaim")
        errors.append(invalid(path, bad_value, text))
    for name in present:
        errors += invalid_texts(subdomain_name(claim[name], False), claim[name], path.child(name))
    return errors


def _policies(pod_spec: Obj, path: Path, opts: Options) -> Errors:
    errors: Errors = []
    if pod_spec.get("hostNetwork"):
        errors += _ports_of_host(pod_spec, path.child("containers"), opts)
    errors += choice(pod_spec.get("restartPolicy", ""), RESTART_POLICIES, path.child("restartPolicy"), needed=True)
    errors += choice(pod_spec.get("dnsPolicy", ""), DNS_POLICIES, path.child("dnsPolicy"), needed=True)
    errors += labels(pod_spec.get("nodeSelector"), path.child("nodeSelector"))
    errors += security.of_pod(pod_spec.get("securityContext"), pod_spec, path.child("securityContext"), opts)
    if opts.version >= V1_37:
        errors += security.shared_processes(pod_spec, path)
    errors += scheduling.affinity(pod_spec.get("affinity"), path.child("affinity"), opts)
    return errors + _dns(pod_spec, path.child("dnsConfig"), opts)


def _ports_of_host(pod_spec: Obj, path: Path, opts: Options) -> Errors:
    text = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(path.index(i).child("ports").index(j).child("hostPort"), port.get("hostPort", 0), text)
        for i, container in enumerate(pod_spec.get("containers") or ())
        for j, port in enumerate(container.get("ports") or ())
        if (opts.is_pod or port.get("hostPort")) and port.get("hostPort", 0) != port.get("containerPort", 0)
    ]


def _dns(pod_spec: Obj, path: Path, opts: Options) -> Errors:
    config = pod_spec.get("dnsConfig")
    if pod_spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(path.child("nameservers"), text)]
    if config is None:
        return []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    errors: Errors = []
    if len(servers) > 3:
        bad_value = Typed(servers, "[]string")
        errors.append(invalid(path.child("nameservers"), bad_value, "must not have more than 3 nameservers"))
    for i, server in enumerate(servers):
        errors += ip(server, path.child("nameservers").index(i), strict=opts.strict_ips)
    here, bad_value = path.child("searches"), Typed(searches, "[]string")
    if len(searches) > 32:
        errors.append(invalid(here, bad_value, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid(here, bad_value, text))
    for i, search in enumerate(searches):
        if opts.relaxed_dns and search == ".":
            continue
        name, where = search.removesuffix("."), here.index(i)
        errors += loose_subdomain(name, where, opts.version) if opts.relaxed_dns else subdomain(name, where)
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(path.child("options").index(i), "must not be empty"))
    return errors


def _placement(pod_spec: Obj, path: Path, opts: Options) -> Errors:
    errors: Errors = []
    for i, gate in enumerate(pod_spec.get("readinessGates") or ()):
        errors += qualified(gate.get("conditionType", ""), path.child("readinessGates").index(i).child("conditionType"))
    errors += scheduling.gates(pod_spec.get("schedulingGates"), path.child("schedulingGates"))
    constraints = pod_spec.get("topologySpreadConstraints")
    errors += scheduling.spread(constraints, path.child("topologySpreadConstraints"), opts)
    errors += security.host_process(pod_spec, path)
    if pod_spec.get("hostUsers") is False:
        errors += _own_users(pod_spec, path, opts)
    return errors + _hostname_override(pod_spec, path.child("hostnameOverride"))


_OWN_USERS = ByRelease({V1_34: "when `hostUsers` is false", V1_31: "when `pod.Spec.HostUsers` is false"})


def _own_users(pod_spec: Obj, path: Path, opts: Options) -> Errors:
    """Check that a pod with a user namespace shares nothing else with its host (upstream: `validateHostUsers`)."""
    text = _OWN_USERS[opts.version]
    names = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    errors = [
        forbidden(path.child(shown_name), text)
        for name, shown_name in names.items()
        if pod_spec.get(name) and not (name == "hostNetwork" and opts.own_users_in_host_network)
    ]
    with_devices = [here for container, here in with_paths(pod_spec, path) if container.get("volumeDevices")]
    if with_devices and not opts.own_users_of_devices:
        errors += [forbidden(here.child("volumeDevices"), text) for here in with_devices]
    return errors


def _hostname_override(pod_spec: Obj, path: Path) -> Errors:
    """Check the name that a pod has instead of its own (upstream: `validatePodHostName`)."""
    name = pod_spec.get("hostnameOverride")
    if name is None:
        return []
    errors = [
        forbidden(path, f"may not be specified when {other} is true")
        for other in ("setHostnameAsFQDN", "hostNetwork")
        if pod_spec.get(other)
    ]
    if size(name) > _MAX_HOSTNAME:
        errors.append(too_long(path, _MAX_HOSTNAME))
    return errors + subdomain(name, path)


def _identity(pod_spec: Obj, path: Path) -> Errors:
    errors: Errors = []
    for name in ("serviceAccountName", "nodeName"):
        if pod_spec.get(name):
            errors += invalid_texts(subdomain_name(pod_spec[name], False), pod_spec[name], path.child(name))
    seconds = pod_spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= MAX_INT32:
        errors.append(invalid(path.child("activeDeadlineSeconds"), seconds, range_text(1, MAX_INT32)))
    for name in ("hostname", "subdomain"):
        if pod_spec.get(name):
            errors += label(pod_spec[name], path.child(name))
    return errors


def _system(pod_spec: Obj, path: Path, opts: Options) -> Errors:
    errors = scheduling.tolerations(
        pod_spec.get("tolerations"), path.child("tolerations"), opts.version, comparing=opts.comparing_tolerations
    )
    for i, alias in enumerate(pod_spec.get("hostAliases") or ()):
        here = path.child("hostAliases").index(i)
        errors += ip(alias.get("ip", ""), here.child("ip"), strict=opts.strict_ips)
        for j, host in enumerate(alias.get("hostnames") or ()):
            errors += subdomain(host, here.child("hostnames").index(j))
    priority, runtime, policy = (pod_spec.get(n) for n in ("priorityClassName", "runtimeClassName", "preemptionPolicy"))
    if priority:
        errors += invalid_texts(dns_subdomain_texts(priority), priority, path.child("priorityClassName"))
    if runtime is not None:
        errors += invalid_texts(dns_subdomain_texts(runtime), runtime, path.child("runtimeClassName"))
    if policy is not None:
        allowed = ("PreemptLowerPriority", "Never")
        errors += choice(policy, allowed, path.child("preemptionPolicy"), needed=True)
    if pod_spec.get("overhead") is not None:
        errors += _overhead(pod_spec["overhead"], path.child("overhead"), opts)
    errors += security.operating_system(pod_spec, path, opts.version)
    errors += scheduling.workload(pod_spec, path)
    return errors + env.file_volumes(pod_spec, path)


def _overhead(amounts: dict[str, str], path: Path, opts: Options) -> Errors:
    return resources.requirements({"limits": amounts}, (), path)
