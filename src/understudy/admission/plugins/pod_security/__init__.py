"""PodSecurity: what namespaces' labels say about how far their pods may go.

`levels` reads the labels, `standards` says which checks of `baseline` and `restricted` apply, `enforcement` decides.
https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""
