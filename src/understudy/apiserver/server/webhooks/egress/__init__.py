"""The proxies through which webhooks, aggregated API servers and kubelets are reached."""
