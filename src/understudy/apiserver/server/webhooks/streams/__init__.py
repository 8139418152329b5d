"""Connections that carry several streams: SPDY/3.1, and WebSockets with channels. Servers and kubelets speak them."""
