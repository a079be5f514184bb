"""Sockets: the HTTP/1.1 listener, TLS certificates, and the check of host names and web origins."""
