"""Regular expressions beyond `matches`: `find` and `findAll`."""

from __future__ import annotations

DECLARATIONS = """
find
    string_find_string: string.(string) -> string
findAll
    string_find_all_string: string.(string) -> list(string)
    string_find_all_string_int: string.(string, int) -> list(string)
"""
