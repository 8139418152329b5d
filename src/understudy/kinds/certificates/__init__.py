"""The kinds of certificates.k8s.io: signing requests, trust bundles, certificates of pods."""
