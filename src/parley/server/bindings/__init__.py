"""JSON-RPC, REST and gRPC: each decodes a request, calls the service and encodes its answer."""
