"""HTTP/2 for clients, over TLS: by the rules of Go's `net/http2` and with the settings of kube-apiserver."""
