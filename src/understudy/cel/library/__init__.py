"""The function libraries of CEL environments.

`declarations.txt` declares them for the checker, in the notation of `checker.declarations`; `FUNCTIONS` of a module has
what the overloads of the library do, by their ids.
"""
