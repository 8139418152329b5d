"""The ground floor, Kubernetes' apimachinery: types, errors, selectors, quantities, texts, serializers, patches,
releases.
"""
