"""A fleet's tables in PostgreSQL, and the servers that share them."""
