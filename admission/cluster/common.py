"""Updates that report again what creating the same object would."""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission import meta
from understudy.admission.field import Errors
from understudy.admission.meta import NameRule
from understudy.admission.names import subdomain_name
from understudy.apiserver.kind import Context
from understudy.apiserver.types import Obj

Check = Callable[[Obj, Context], Errors]
Update = Callable[[Obj, Obj, Context], Errors]


def again(
    check: Check, *extra: Update, times: int = 1, namespaced: bool = False, name: NameRule = subdomain_name
) -> Update:
    """Validation of an update that validates the whole object as a new one, metadata included, and then some."""

    def validate(obj: Obj, old: Obj, ctx: Context) -> Errors:
        whole = meta.validate(obj["metadata"], namespaced=namespaced, name=name, release=ctx.release)
        whole += check(obj, ctx)
        return whole * times + [error for rule in extra for error in rule(obj, old, ctx)]

    return validate
