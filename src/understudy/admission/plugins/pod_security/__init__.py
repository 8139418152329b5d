"""PodSecurity: hold pods to the level that the labels of their namespace set.

`levels` reads the labels, `standards` lists the checks of each level, `baseline` and `restricted` hold the checks,
`enforcement` is the plugin.
https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""
