"""From a request to its answer: request info, routing, negotiation, handlers (upstream: `apiserver/pkg/endpoints`)."""
