"""CBOR (RFC 8949), as apimachinery's serializer of the same name reads and writes it (KEP-4222)."""
