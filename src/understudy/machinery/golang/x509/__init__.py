"""Certificates and certificate requests as Go's `crypto/x509` reads them: PEM, DER, and the fields of X.509."""
