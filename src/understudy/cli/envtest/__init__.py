"""The programs `etcd` and `kube-apiserver` that `understudy envtest-assets` lays down for suites in Go.

`etcd` keeps what is stored, and runs the server itself. `kube-apiserver` checks its flags, hands them over to the etcd
that `--etcd-servers` names, and holds the connection for as long as it lives. So an API server that is stopped or
killed loses nothing, and the next one is started in a process that has everything imported.
"""
