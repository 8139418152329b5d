"""Optional values: `a.?b`, `a[?b]`, `optional.of(x)`, `x.orValue(y)`."""

from __future__ import annotations

DECLARATIONS = """
_?._
    select_optional_field: (dyn, string) -> optional_type(V)
_[?_]
    list_optindex_optional_int: (list(V), int) -> optional_type(V)
    optional_list_optindex_optional_int: (optional_type(list(V)), int) -> optional_type(V)
    map_optindex_optional_value: (map(K, V), K) -> optional_type(V)
    optional_map_optindex_optional_value: (optional_type(map(K, V)), K) -> optional_type(V)
_[_]
    optional_list_index_int: (optional_type(list(V)), int) -> optional_type(V)
    optional_map_index_value: (optional_type(map(K, V)), K) -> optional_type(V)
hasValue
    optional_hasValue: optional_type(V).() -> bool
optional.none
    optional_none: () -> optional_type(V)
optional.of
    optional_of: (V) -> optional_type(V)
optional.ofNonZeroValue
    optional_ofNonZeroValue: (V) -> optional_type(V)
or
    optional_or_optional: optional_type(V).(optional_type(V)) -> optional_type(V)
orValue
    optional_orValue_value: optional_type(V).(V) -> V
value
    optional_value: optional_type(V).() -> V
"""
