"""The admission plugins by name: the order in which they are asked, and the chain of those that are enabled.

Source: `AllOrderedPlugins` and `DefaultOffAdmissionPlugins` in k8s.io/kubernetes/pkg/kubeapiserver/options of 1.36.
"""

from __future__ import annotations

from collections.abc import Collection

from understudy.admission.chain import Chain, Plugin
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.default_classes import DEFAULT_INGRESS_CLASS, DEFAULT_STORAGE_CLASS
from understudy.admission.plugins.limit_ranger import LimitRanger
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
from understudy.admission.plugins.pod_security.enforcement import PodSecurity
from understudy.admission.plugins.pods.always_pull_images import AlwaysPullImages
from understudy.admission.plugins.pods.default_toleration_seconds import DefaultTolerationSeconds
from understudy.admission.plugins.pods.placement import (
    ExtendedResourceToleration,
    LimitPodHardAntiAffinityTopology,
)
from understudy.admission.plugins.pods.resizes import NodeDeclaredFeatureValidator, PodResizeValidator
from understudy.admission.plugins.pods.runtime_class import RuntimeClass
from understudy.admission.plugins.pods.service_account import ServiceAccount
from understudy.admission.plugins.pods.topology_labels import PodTopologyLabels
from understudy.admission.plugins.policy.mutating import MutatingAdmissionPolicy
from understudy.admission.plugins.policy.validating import ValidatingAdmissionPolicy
from understudy.admission.plugins.resource_quota.plugin import QuotaStore, ResourceQuota
from understudy.admission.plugins.scheduling.job_validation import JobValidation
from understudy.admission.plugins.scheduling.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from understudy.admission.plugins.scheduling.priority import Priority
from understudy.admission.plugins.storage.object_in_use_protection import StorageObjectInUseProtection
from understudy.admission.plugins.storage.persistent_volume_claim_resize import PersistentVolumeClaimResize
from understudy.admission.plugins.webhook.mutating import MutatingAdmissionWebhook
from understudy.admission.plugins.webhook.validating import ValidatingAdmissionWebhook
from understudy.admission.webhooks import WebhookClient
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_33, V1_35, V1_36, Version
from understudy.machinery.util.spelling import did_you_mean

# Every name that kube-apiserver knows, in the order in which plugins are asked. Those without a class here do nothing.
ALL_ORDERED_PLUGINS = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)


# The releases that brought plugins.
_SINCE = {
    "MutatingAdmissionPolicy": V1_32,
    "PodTopologyLabels": V1_33,
    "NodeDeclaredFeatureValidator": V1_35,
    "PodGroupProtection": V1_36,
    "PodGroupWorkloadExists": V1_36,
    "JobValidation": V1_36,
    "PodResizeValidator": V1_36,
}


def _is_known(name: str, release: Version) -> bool:
    return name in ALL_ORDERED_PLUGINS and (name not in _SINCE or release >= _SINCE[name])


def new_chain(
    enable: Collection[str],
    disable: Collection[str],
    quotas: QuotaStore,
    objects: ObjectInterfaces,
    authorizer: Authorizer,
    webhooks: WebhookClient,
    metrics: AdmissionMetrics,
    release: Version,
    gates: Gates,
) -> Chain:
    """Return the chain of the release's plugins that are on by default or in `enable`, less those in `disable`.

    Raises ValueError for names that are unknown or in both.
    """
    check_plugin_names(enable, disable, release)
    configurable = (
        MutatingAdmissionPolicy(objects, authorizer, metrics, release),
        MutatingAdmissionWebhook(objects, authorizer, webhooks, metrics),
        ValidatingAdmissionPolicy(objects, authorizer, metrics, release, gates),
        ValidatingAdmissionWebhook(objects, authorizer, webhooks, metrics),
    )
    plugins: list[Plugin] = [
        NamespaceLifecycle(),
        LimitRanger(),
        TaintNodesByCondition(),
        PodSecurity(),
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
        ResourceQuota(quotas),
    ]
    opt_in: list[Plugin] = [
        NamespaceExists(),
        LimitPodHardAntiAffinityTopology(),
        AlwaysPullImages(),
        ExtendedResourceToleration(),
        DenyServiceExternalIPs(),
        AlwaysDeny(),
        ServiceAccount(),
        NodeRestriction(authorizer),
        OwnerReferencesPermissionEnforcement(objects),
    ]
    plugins += (plugin for plugin in opt_in if plugin.name in enable)
    enabled = [plugin for plugin in plugins if plugin.name not in disable and _is_known(plugin.name, release)]
    chain = Chain(sorted(enabled, key=lambda plugin: ALL_ORDERED_PLUGINS.index(plugin.name)))
    for plugin in configurable:
        plugin.source.changed = chain.forget
    return chain


def check_plugin_names(enable: Collection[str], disable: Collection[str], release: Version) -> None:
    """Raise ValueError with kube-apiserver's message for unknown or overlapping names (`AdmissionOptions.Validate`)."""
    for flag, names in (("disable", disable), ("enable", enable)):
        for name in names:
            if not _is_known(name, release):
                hint = did_you_mean(name, (known for known in ALL_ORDERED_PLUGINS if _is_known(known, release)))
                raise ValueError(f"{flag}-admission-plugins plugin {go_quote(name)} is unknown{hint}")
    if both := sorted(set(enable) & set(disable)):
        raise ValueError(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")
