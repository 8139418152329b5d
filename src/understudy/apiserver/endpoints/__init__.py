"""Endpoints: request info, routing, negotiation and handlers (upstream: `apiserver/pkg/endpoints`)."""
