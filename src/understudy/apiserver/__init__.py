"""The server: authentication, authorization, registry and storage, endpoints, its own controllers, HTTP edge."""
