"""The metrics of admission webhooks and policies (upstream: k8s.io/apiserver/pkg/admission/metrics).

They are counted where webhooks and policies are asked, and written by the page /metrics.
"""

from __future__ import annotations

from understudy.admission.times import AdmissionTimes
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, ByRelease, Version
from understudy.machinery.util.metrics import CONDITION_SECONDS, AnyFamily, Counter, Histogram

_HIGHEST_CODE = 600  # as which all above are counted, so that there are not too many series
_CODES_ARE_BOUNDED = "Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded."
_BY_CONDITIONS = "and broken out for each kind containing matchConditions"
_EXPRESSION_BUCKETS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_OUT_OF_BUDGET = "validation failed due to running out of cost budget"
_KINDS_OF_ADMISSION = ByRelease({V1_32: "validating or admit", V1_31: "validating or mutating"})


class PodSecurityMetrics:
    """Counts the evaluations of pods and templates by PodSecurity. Upstream: pod-security-admission/metrics."""

    def __init__(self) -> None:
        prefix, request = "pod_security", ("request_operation", "resource", "subresource")
        self.errors = Counter(
            f"{prefix}_errors_total",
            "[ALPHA] Number of errors preventing normal evaluation. Non-fatal errors may result in the latest "
            "restricted profile being used for evaluation.",
            ("fatal", *request),
        )
        self.evaluations = Counter(
            f"{prefix}_evaluations_total",
            "[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.",
            ("decision", "mode", "policy_level", "policy_version", *request),
        )
        self.exemptions = Counter(
            f"{prefix}_exemptions_total",
            "[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.",
            request,
        )
        for operation in ("create", "update"):  # those that are there from the start
            self.evaluations.series["allow", "enforce", "privileged", "latest", operation, "pod", ""] = 0
            for resource in ("controller", "pod"):
                self.exemptions.series[operation, resource, ""] = 0

    @property
    def families(self) -> tuple[Counter, ...]:
        """Return all families, in the order of their names."""
        return self.errors, self.evaluations, self.exemptions


class AdmissionMetrics:
    """Counts the calls of webhooks and the evaluations of policies of one server. `times` measures all plugins.

    Labels of match conditions: `kind` is "webhook" or "policy", `type` "admit", "validating" or ("policy") "validate".

    Labels of webhooks: `type` is "admit" or "validating", `rejected` "true" or "false", `error_type`
    "calling_webhook_error", "apiserver_internal_error" or "no_error" (the webhook itself refuses).
    """

    def __init__(self, version: Version) -> None:
        self.times: AdmissionTimes | None = None  # made with the chain, which knows the plugins
        self.pod_security = PodSecurityMetrics()
        prefix, kinds = "apiserver_admission_webhook", _KINDS_OF_ADMISSION[version]
        self.webhook_durations = Histogram(
            f"{prefix}_admission_duration_seconds",
            "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ("name", "operation", "rejected", "type"),
            (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25),
        )
        self.webhooks_failed_open = Counter(
            f"{prefix}_fail_open_count",
            "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type "
            f"({kinds}).",
            ("name", "type"),
        )
        self.webhook_rejections = Counter(
            f"{prefix}_rejection_count",
            "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type "
            "(validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or "
            "apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection "
            "code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code "
            f"is greater or equal to 400). {_CODES_ARE_BOUNDED}",
            ("error_type", "name", "operation", "rejection_code", "type"),
        )
        self.webhook_requests = Counter(
            f"{prefix}_request_total",
            "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type "
            f"({kinds}) and operation. Additional labels specify whether the request was rejected or not and an HTTP "
            f"status code. {_CODES_ARE_BOUNDED}",
            ("code", "name", "operation", "rejected", "type"),
        )

        policy, checked = "apiserver_validating_admission_policy_check", ("error_type", "policy", "policy_binding")
        self.validations = Counter(
            f"{policy}_total",
            "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and "
            "enforcement action taken.",
            ("enforcement_action", *checked),
        )
        self.validation_durations = Histogram(
            f"{policy}_duration_seconds",
            "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy "
            "and further including binding and enforcement action taken.",
            ("enforcement_action", *checked),
            _EXPRESSION_BUCKETS,
        )
        mutation = "apiserver_mutating_admission_policy_check"
        self.mutations = Counter(
            f"{mutation}_total",
            "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
            checked,
        )
        self.mutation_durations = Histogram(
            f"{mutation}_duration_seconds",
            "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and "
            "binding.",
            checked,
            _EXPRESSION_BUCKETS,
        )
        self._counts_mutations = version >= V1_34

        conditions, of_conditions = "apiserver_admission_match_condition", ("kind", "name", "operation", "type")
        self.condition_errors = Counter(
            f"{conditions}_evaluation_errors_total",
            "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the "
            f"match condition {_BY_CONDITIONS} (webhook or policy), operation and admission type (validate or admit).",
            of_conditions,
        )
        self.condition_durations = Histogram(
            f"{conditions}_evaluation_seconds",
            "[ALPHA] Admission match condition evaluation time in seconds, identified by name "
            f"{_BY_CONDITIONS} (webhook or policy), operation and type (validate or admit).",
            of_conditions,
            CONDITION_SECONDS,
        )
        self.condition_exclusions = Counter(
            f"{conditions}_exclusions_total",
            "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing "
            f"the match condition {_BY_CONDITIONS} (webhook or policy), operation and admission type (validate or "
            "admit).",
            of_conditions,
        )

    @property
    def families(self) -> tuple[AnyFamily, ...]:
        """Return all families."""
        return (
            self.condition_errors,
            self.condition_durations,
            self.condition_exclusions,
            self.webhook_durations,
            self.webhooks_failed_open,
            self.webhook_rejections,
            self.webhook_requests,
            self.mutation_durations,
            self.mutations,
            self.validation_durations,
            self.validations,
            *self.pod_security.families,
            *(() if self.times is None else self.times.families),
        )

    def observe_webhook(
        self, name: str, operation: str, step: str, seconds: float, code: int, error_type: str | None
    ) -> None:
        """Count a call of a webhook (`ObserveWebhook`, `ObserveWebhookRejection`).

        code        status code of the answer: 200, that of an error, 0 for errors of the server itself
        error_type  why the request is refused, None if it is not
        """
        text, rejected = str(min(code, _HIGHEST_CODE)), "false" if error_type is None else "true"
        if error_type is not None:
            self.webhook_rejections.add(error_type, name, operation, text, step)
        self.webhook_requests.add(text, name, operation, rejected, step)
        self.webhook_durations.observe(seconds, name, operation, rejected, step)

    def observe_validation(self, policy: str, binding: str, action: str, message: str, seconds: float) -> None:
        """Count a validation that failed, and what was done about it: "deny", "audit", "warn" or, if the failure policy
        ignores the error, "allow"."""
        labels = (action, _error_type(message), policy, binding)
        self.validations.add(*labels)
        self.validation_durations.observe(seconds, *labels)

    def observe_mutation(self, policy: str, binding: str, error: str, seconds: float) -> None:
        """Count a mutation that was applied or ("": no) ended with an error. Releases before 1.34 do not."""
        if self._counts_mutations:
            labels = (_error_type(error), policy, binding)
            self.mutations.add(*labels)
            self.mutation_durations.observe(seconds, *labels)


def _error_type(message: str) -> str:
    """Return the kind of an error of a policy, by its text (`ErrorType`)."""
    if not message:
        return "no_error"
    if message.startswith("compilation"):
        return "compile_error"
    return "out_of_budget" if message.startswith(_OUT_OF_BUDGET) else "invalid_error"
