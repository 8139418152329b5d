"""Texts as Go's libraries read and write them: JSON, YAML, times, URLs, regular expressions, certificates, printed
values.
"""
