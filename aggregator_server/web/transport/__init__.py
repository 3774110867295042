"""Connections below HTTP: sockets, TLS handshakes, time-outs, and what comes in over them."""
