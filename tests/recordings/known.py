"""The recorded steps that understudy answers differently, by file and line, each with the reason.

A difference that is not listed fails the test of its file, which names its line; so does a listed line that agrees:
take it off. A line is that of the file, where the head is line 1; 0 is the order of resource versions.
"""

OWN_WORDS = "descriptions in OpenAPI are in our own words"

ANY_BINDING = "several bindings allow it; the real server names the one that its cache gives first"
GATE_IS_ON = "DynamicResourceAllocation is on by default, so the policy has its rules in 1.32"

KNOWN: dict[str, dict[int, str]] = {
    "authorization/1.32-policy/bootstrap": dict.fromkeys((54, 57, 125, 127), GATE_IS_ON),
    "authorization/1.32/rules-matrix": {26: ANY_BINDING},
    "authorization/1.36/rules-matrix": {26: ANY_BINDING},
    "custom-resources/1.32/crd_lifecycle": {27: OWN_WORDS},
    "custom-resources/1.32/crd_openapi": {6: OWN_WORDS, 18: OWN_WORDS},
    "custom-resources/1.36/crd_lifecycle": {27: OWN_WORDS},
    "custom-resources/1.36/crd_openapi": {6: OWN_WORDS, 18: OWN_WORDS},
    "custom-resources/1.37/crd_lifecycle": {27: OWN_WORDS},
    "custom-resources/1.37/crd_openapi": {6: OWN_WORDS, 18: OWN_WORDS},
}
