"""How long admission takes: each plugin, and all of them. Upstream: k8s.io/apiserver/pkg/admission/metrics.

kube-apiserver asks a plugin about every resource, and counts it, be it that it has nothing to do. So requests are
counted by their operation, which costs one number; one of 128 is measured, and stands for those before it. One that is
slow, such as the first one of all, stands for itself, and the next is measured, too. Where a plugin waits for others,
such as webhooks, each request is measured, and stands for itself.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import partial

from understudy.machinery.types import NamedTuple, dataclass
from understudy.machinery.util.metrics import AnyFamily, Labels, SampledHistogram, Summary, merged

ADMIT, VALIDATE = "admit", "validate"
STEPS = (ADMIT, VALIDATE)
_MEASURED = 128  # one of so many is measured
_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_STEP = "apiserver_admission_step_admission_duration_seconds"
_STEP_LABELS = ("operation", "rejected", "type")
_PLUGIN = "apiserver_admission_controller_admission_duration_seconds"
_ABOUT_PLUGINS = (
    "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation "
    "and API resource and type (validate or admit)."
)


def _about_steps(kind: str) -> str:
    return (
        f"Admission sub-step latency {kind} in seconds, broken out for each operation and API resource and step type "
        "(validate or admit)."
    )


class Handler(NamedTuple):
    """Say what a plugin of kube-apiserver is asked about, whatever the resource (`admission.Handler`).

    operations  CREATE, UPDATE, DELETE or CONNECT
    steps       ADMIT, VALIDATE or both
    waits       whether it asks others outside
    """

    operations: Collection[str]
    steps: Collection[str]
    waits: bool = False


@dataclass
class Round:
    """The times of one request: `seconds` of each plugin that was asked, in their order.

    alone  whether it stands for no other request
    """

    alone: bool
    seconds: list[tuple[str, float]] = field(default_factory=list)


class Step:
    """Counts how often admission was asked to admit, or to validate, an operation, and measures how long that takes.

    plugins  the names of those that are asked, in their order
    summary  counts the times of all of them
    skipped  requests for which no plugin had anything to do
    """

    def __init__(self, type_: str, operation: str, plugins: Sequence[str], summary: Summary) -> None:
        self._type, self._operation = type_, operation
        self.skipped = 0
        self._settled = 0  # those of `skipped` that are in the histograms
        self._passed = self._again = 0
        self._refused = Counts[str]()
        self._unmeasured = 0  # requests until one is measured
        about = f"[STABLE] {_about_steps('histogram')}"
        self._whole = SampledHistogram(_STEP, about, _STEP_LABELS, _SECONDS, self._totals, summary)
        labels = ("name", *_STEP_LABELS)
        self._plugins = {
            name: SampledHistogram(
                _PLUGIN, _ABOUT_PLUGINS, labels, _SECONDS, partial(self._totals_of, name, plugins[index + 1 :])
            )
            for index, name in enumerate(plugins)
        }

    def begin(self, *, waits: bool) -> Round | None:
        """Return the times of a request that begins, to be filled; None if it is not measured."""
        if waits:
            return Round(alone=True)
        if self._unmeasured:
            self._unmeasured -= 1
            return None
        self._unmeasured = _MEASURED - 1
        return Round(alone=False)

    def end(self, times: Round | None, refused: str = "", *, again: bool = False) -> None:
        """Count a request.

        times    those of its plugins, None if it was not measured
        refused  name of the plugin that has refused it, "" for none
        again    whether all plugins were asked twice
        """
        self._again += again
        if refused:
            self._refused[refused] += 1
        else:
            self._passed += 1
        if times is not None:
            self._note(times, refused)

    def _note(self, times: Round, refused: str) -> None:
        whole = sum(seconds for _, seconds in times.seconds)
        is_slow = whole > _SECONDS[0]
        if is_slow:
            self._unmeasured = 0
        if not (times.alone or is_slow):
            self._whole.measure(whole)
            measured = dict(times.seconds)
            for name, histogram in self._plugins.items():
                if name in measured or not refused:
                    histogram.measure(measured.get(name, 0.0))
            return
        self._whole.observe(whole, *self._labels(is_refused=bool(refused)))
        last = len(times.seconds) - 1
        for index, (name, seconds) in enumerate(times.seconds):
            is_refused = index == last and bool(refused)
            self._plugins[name].observe(seconds, name, *self._labels(is_refused=is_refused))

    def settle(self) -> tuple[SampledHistogram, Sequence[SampledHistogram]]:
        """Return the histograms of all plugins and of each, with all that was counted."""
        skipped, self._settled = self.skipped - self._settled, self.skipped
        if skipped:
            passed = self._labels(is_refused=False)
            self._whole.add(0.0, passed, skipped)
            for name, histogram in self._plugins.items():
                histogram.add(0.0, (name, *passed), skipped)
        return self._whole, [*self._plugins.values()]

    def _labels(self, *, is_refused: bool) -> Labels:
        return self._operation, "true" if is_refused else "false", self._type

    def _totals(self) -> Mapping[Labels, int]:
        return {
            self._labels(is_refused=False): self._passed,
            self._labels(is_refused=True): sum(self._refused.values()),
        }

    def _totals_of(self, name: str, later: Sequence[str]) -> Mapping[Labels, int]:
        """Return the numbers of requests that a plugin let pass, and that it refused."""
        passed = self._passed + self._again + sum(self._refused[each] for each in later)
        return {
            (name, *self._labels(is_refused=False)): passed,
            (name, *self._labels(is_refused=True)): self._refused[name],
        }


class AdmissionTimes:
    """Measures the plugins of one server. `handlers` says by name what each is asked about, in their order."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._summary = Summary(f"{_STEP}_summary", f"[ALPHA] {_about_steps('summary')}", _STEP_LABELS)
        self._steps: dict[tuple[str, str], Step] = {}

    def step(self, type_: str, operation: str) -> Step:
        """Return the counts and times of a step, ADMIT or VALIDATE, of an operation."""
        step = self._steps.get((type_, operation))
        if step is None:
            asked = [
                name
                for name, handler in self._handlers.items()
                if operation in handler.operations and type_ in handler.steps
            ]
            step = self._steps[type_, operation] = Step(type_, operation, asked, self._summary)
        return step

    def waits(self, names: Collection[str]) -> bool:
        """Report whether one of some plugins waits for others outside."""
        return any(self._handlers[name].waits for name in names)

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families, none before the first request."""
        settled = [step.settle() for step in self._steps.values()]
        wholes = [whole for whole, _ in settled]
        single = [each for _, plugins in settled for each in plugins]
        return [*(merged(histograms) for histograms in (single, wholes) if histograms), self._summary]
