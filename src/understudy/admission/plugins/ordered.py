"""The chain of the admission plugins that are enabled, in the order in which they are asked.

The names that a release knows are recorded, in their order (`schemas/RELEASE/release.json`). Which plugins are on by
default is the same in every release (`DefaultOffAdmissionPlugins` in k8s.io/kubernetes/pkg/kubeapiserver/options).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache

from understudy.admission.chain import EVERY_OPERATION, Chain, Operation, Plugin
from understudy.admission.manifest.settings import AdmissionSettings, Reader
from understudy.admission.manifest.webhook_users import NOBODY
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.default_classes import DEFAULT_INGRESS_CLASS, DEFAULT_STORAGE_CLASS
from understudy.admission.plugins.limits.event_rate_limit import EventLimits, EventRateLimit, read_event_limits
from understudy.admission.plugins.limits.limit_ranger import LimitRanger
from understudy.admission.plugins.namespace_lifecycle import NamespaceExists, NamespaceLifecycle
from understudy.admission.plugins.nodes.node_restriction import NodeRestriction
from understudy.admission.plugins.nodes.taint_nodes_by_condition import TaintNodesByCondition
from understudy.admission.plugins.permissions.certificate_subject_restriction import CertificateSubjectRestriction
from understudy.admission.plugins.permissions.denials import AlwaysDeny, DenyServiceExternalIPs
from understudy.admission.plugins.permissions.owner_references import OwnerReferencesPermissionEnforcement
from understudy.admission.plugins.permissions.signers import (
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
)
from understudy.admission.plugins.pod_security.configuration import PodSecurityConfiguration, read_pod_security
from understudy.admission.plugins.pod_security.enforcement import PodSecurity
from understudy.admission.plugins.pods.always_pull_images import AlwaysPullImages
from understudy.admission.plugins.pods.default_toleration_seconds import DefaultTolerationSeconds
from understudy.admission.plugins.pods.image_policy import ImagePolicy, ImagePolicyWebhook, new_image_policy_webhook
from understudy.admission.plugins.pods.node_selector import PodNodeSelector, read_node_selectors
from understudy.admission.plugins.pods.placement import (
    ExtendedResourceToleration,
    LimitPodHardAntiAffinityTopology,
)
from understudy.admission.plugins.pods.resizes import NodeDeclaredFeatureValidator, PodResizeValidator
from understudy.admission.plugins.pods.runtime_class import RuntimeClass
from understudy.admission.plugins.pods.service_account import ServiceAccount
from understudy.admission.plugins.pods.toleration_restriction import (
    PodTolerationRestriction,
    TolerationConfiguration,
    read_tolerations,
)
from understudy.admission.plugins.pods.topology_labels import PodTopologyLabels
from understudy.admission.plugins.policy.mutating import MutatingAdmissionPolicy
from understudy.admission.plugins.policy.validating import ValidatingAdmissionPolicy
from understudy.admission.plugins.resource_quota.limited import Limited, read_limited_resources
from understudy.admission.plugins.resource_quota.plugin import QuotaStore, ResourceQuota
from understudy.admission.plugins.scheduling.job_validation import JobValidation
from understudy.admission.plugins.scheduling.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from understudy.admission.plugins.scheduling.priority import Priority
from understudy.admission.plugins.storage.object_in_use_protection import StorageObjectInUseProtection
from understudy.admission.plugins.storage.persistent_volume_claim_resize import PersistentVolumeClaimResize
from understudy.admission.plugins.webhook.mutating import MutatingAdmissionWebhook
from understudy.admission.plugins.webhook.plugin import WebhookPlugin
from understudy.admission.plugins.webhook.validating import ValidatingAdmissionWebhook
from understudy.admission.times import ADMIT, STEPS, VALIDATE, AdmissionTimes, Handler
from understudy.admission.webhooks import WebhookClient
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.util.spelling import did_you_mean


@cache
def all_ordered_plugins(version: Version) -> tuple[str, ...]:
    """Return the names of the release's plugins in the order in which they are asked (`AllOrderedPlugins`).

    Those without a class here do nothing.
    """
    return tuple(read_release_file(version, "release.json")["admissionPlugins"])


# Plugins that read a configuration (`--admission-control-config-file`), and are on by default.
_CONFIGURED = frozenset(
    (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "PodSecurity",
        "ResourceQuota",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    )
)

# Those of them whose configuration is more than a folder of manifests. That of ImagePolicyWebhook names a server, which
# is read elsewhere.
READERS: Mapping[str, Reader] = {
    EventRateLimit.name: read_event_limits,
    PodNodeSelector.name: read_node_selectors,
    PodSecurity.name: read_pod_security,
    PodTolerationRestriction.name: read_tolerations,
    ResourceQuota.name: read_limited_resources,
}


_WRITES = Operation.CREATE, Operation.UPDATE
_CHANGES = *_WRITES, Operation.DELETE
_MUTATES_NEW, _VALIDATES_NEW = Handler((Operation.CREATE,), (ADMIT,)), Handler((Operation.CREATE,), (VALIDATE,))
_MUTATES_WRITES, _VALIDATES_WRITES = Handler(_WRITES, (ADMIT,)), Handler(_WRITES, (VALIDATE,))
_VALIDATES_UPDATES = Handler((Operation.UPDATE,), (VALIDATE,))
_WITHOUT_EFFECT = ("AlwaysAdmit", "NamespaceAutoProvision")  # the plugins without a class here
# What kube-apiserver asks each plugin about, and counts, be it that the plugin has nothing to do then.
_HANDLERS: Mapping[str, Handler] = {
    "AlwaysAdmit": Handler(EVERY_OPERATION, STEPS),
    "NamespaceAutoProvision": _MUTATES_NEW,
    NamespaceLifecycle.name: Handler(_CHANGES, (ADMIT,)),
    NamespaceExists.name: Handler(_CHANGES, (VALIDATE,)),
    LimitPodHardAntiAffinityTopology.name: _VALIDATES_WRITES,
    LimitRanger.name: Handler(_WRITES, STEPS),
    ServiceAccount.name: Handler(_WRITES, STEPS),
    NodeRestriction.name: Handler(_CHANGES, (ADMIT,)),
    TaintNodesByCondition.name: _MUTATES_NEW,
    AlwaysPullImages.name: Handler(_WRITES, STEPS),
    ImagePolicyWebhook.name: Handler(_WRITES, (VALIDATE,), waits=True),
    PodSecurity.name: _VALIDATES_WRITES,
    PodNodeSelector.name: Handler((Operation.CREATE,), STEPS),
    Priority.name: Handler(_CHANGES, STEPS),
    DefaultTolerationSeconds.name: _MUTATES_WRITES,
    PodTolerationRestriction.name: Handler(_WRITES, STEPS),
    EventRateLimit.name: _VALIDATES_WRITES,
    ExtendedResourceToleration.name: _MUTATES_WRITES,
    DEFAULT_STORAGE_CLASS.name: _MUTATES_NEW,
    StorageObjectInUseProtection.name: _MUTATES_NEW,
    PodGroupProtection.name: _MUTATES_NEW,
    OwnerReferencesPermissionEnforcement.name: _VALIDATES_WRITES,
    PersistentVolumeClaimResize.name: _VALIDATES_UPDATES,
    RuntimeClass.name: Handler((Operation.CREATE,), STEPS),
    CertificateApproval.name: _VALIDATES_UPDATES,
    CertificateSigning.name: _VALIDATES_UPDATES,
    ClusterTrustBundleAttest.name: _VALIDATES_WRITES,
    CertificateSubjectRestriction.name: _VALIDATES_NEW,
    DEFAULT_INGRESS_CLASS.name: _MUTATES_NEW,
    DenyServiceExternalIPs.name: _VALIDATES_WRITES,
    PodTopologyLabels.name: _MUTATES_NEW,
    PodGroupWorkloadExists.name: _VALIDATES_NEW,
    NodeDeclaredFeatureValidator.name: _VALIDATES_WRITES,
    JobValidation.name: _VALIDATES_UPDATES,
    PodResizeValidator.name: _VALIDATES_UPDATES,
    MutatingAdmissionPolicy.name: Handler((*_WRITES, Operation.CONNECT), (ADMIT,)),
    MutatingAdmissionWebhook.name: Handler(EVERY_OPERATION, (ADMIT,), waits=True),
    ValidatingAdmissionPolicy.name: Handler(EVERY_OPERATION, (VALIDATE,)),
    ValidatingAdmissionWebhook.name: Handler(EVERY_OPERATION, (VALIDATE,), waits=True),
    ResourceQuota.name: _VALIDATES_WRITES,
    AlwaysDeny.name: Handler(EVERY_OPERATION, STEPS),
}


def configured_plugins(enable: Collection[str], disable: Collection[str], version: Version) -> list[str]:
    """Return the names of the enabled plugins that may read a configuration, in the order in which they are asked."""
    on = (_CONFIGURED | set(enable)) - set(disable)
    return [name for name in all_ordered_plugins(version) if name in on]


def new_chain(
    enable: Collection[str],
    disable: Collection[str],
    quotas: QuotaStore,
    objects: ObjectInterfaces,
    authorizer: Authorizer,
    webhooks: WebhookClient,
    metrics: AdmissionMetrics,
    version: Version,
    gates: Gates,
    settings: AdmissionSettings,
) -> Chain:
    """Return the chain of the release's plugins that are on by default or in `enable`, less those in `disable`.

    Raises ValueError for names that are unknown or in both.
    """
    check_plugin_names(enable, disable, version)
    manifests = settings.manifests
    configurable: Sequence[MutatingAdmissionPolicy | ValidatingAdmissionPolicy | WebhookPlugin] = (
        MutatingAdmissionPolicy(objects, authorizer, metrics, version, manifests),
        MutatingAdmissionWebhook(
            objects, authorizer, webhooks, metrics, manifests, settings.of(MutatingAdmissionWebhook.name, NOBODY)
        ),
        ValidatingAdmissionPolicy(objects, authorizer, metrics, version, gates, manifests),
        ValidatingAdmissionWebhook(
            objects, authorizer, webhooks, metrics, manifests, settings.of(ValidatingAdmissionWebhook.name, NOBODY)
        ),
    )
    plugins: list[Plugin] = [
        NamespaceLifecycle(),
        LimitRanger(),
        TaintNodesByCondition(),
        PodSecurity(settings.of(PodSecurity.name, PodSecurityConfiguration()), metrics.pod_security),
        Priority(),
        DefaultTolerationSeconds(),
        DEFAULT_STORAGE_CLASS,
        StorageObjectInUseProtection(),
        PodGroupProtection(),
        PersistentVolumeClaimResize(),
        RuntimeClass(),
        CertificateApproval(),
        CertificateSigning(),
        ClusterTrustBundleAttest(),
        CertificateSubjectRestriction(),
        DEFAULT_INGRESS_CLASS,
        PodTopologyLabels(),
        PodGroupWorkloadExists(),
        NodeDeclaredFeatureValidator(),
        JobValidation(),
        PodResizeValidator(),
        *configurable,
        ResourceQuota(quotas, settings.of(ResourceQuota.name, Limited())),
    ]
    opt_in: list[Plugin] = [
        NamespaceExists(),
        LimitPodHardAntiAffinityTopology(),
        AlwaysPullImages(),
        ExtendedResourceToleration(),
        EventRateLimit(settings.of(EventRateLimit.name, EventLimits()), settings.clock.now),
        PodNodeSelector(settings.of(PodNodeSelector.name, dict[str, str]())),
        PodTolerationRestriction(settings.of(PodTolerationRestriction.name, TolerationConfiguration())),
        DenyServiceExternalIPs(),
        AlwaysDeny(),
        ServiceAccount(),
        NodeRestriction(authorizer),
        OwnerReferencesPermissionEnforcement(objects),
    ]
    if (policy := settings.of(ImagePolicyWebhook.name, ImagePolicy())).endpoint is not None:
        opt_in.append(new_image_policy_webhook(policy, webhooks, settings.clock, version))
    plugins += (plugin for plugin in opt_in if plugin.name in enable)
    known = all_ordered_plugins(version)
    enabled = [plugin for plugin in plugins if plugin.name not in disable and plugin.name in known]
    if metrics.times is None:
        names = {plugin.name for plugin in enabled} | {name for name in enable if name in _WITHOUT_EFFECT}
        metrics.times = AdmissionTimes({name: _HANDLERS[name] for name in known if name in names})
    chain = Chain(sorted(enabled, key=lambda plugin: known.index(plugin.name)), metrics.times)
    for plugin in configurable:
        plugin.source.on_change(chain.forget)
    return chain


def check_plugin_names(enable: Collection[str], disable: Collection[str], version: Version) -> None:
    """Raise ValueError with kube-apiserver's message for unknown or overlapping names (`AdmissionOptions.Validate`)."""
    known = all_ordered_plugins(version)
    for flag, names in (("disable", disable), ("enable", enable)):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ValueError(f"{flag}-admission-plugins plugin {go_quote(name)} is unknown{hint}")
    if both := sorted(set(enable) & set(disable)):
        raise ValueError(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")
