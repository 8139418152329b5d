"""The rules that the types of the API declare about their fields (KEP-5073), which are recorded since 1.37.

    errors = with_declared_errors(kind, obj, old, ctx, errors)

`schemas/RELEASE/validations.json` has them, `program` makes functions of them, `checks` has those that are named.
"""

from understudy.kinds.declared_rules.enforced import with_declared_errors

__all__ = ["with_declared_errors"]
