"""What Kubernetes calls apimachinery: types, errors, texts, serializers and patches. Knows no server, kind or store."""
