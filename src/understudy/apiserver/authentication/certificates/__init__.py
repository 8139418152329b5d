"""Users of client certificates, and those whom front proxies with certificates name."""
