"""Faults that tests ask for: requests that fail, late, halfway or not at all as they should.

`faults` has what users call, `fault` the kinds of faults, `rules` which requests meet them, `effects` what happens to
such a request. `document` reads them from JSON and YAML.
"""
