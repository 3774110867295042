"""What several programs need and nobody agrees on over the wire: files, child processes, command lines."""
