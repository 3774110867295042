"""The HTTP service: application, routes, limits and error replies."""
