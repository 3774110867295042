"""What a device makes of a round's result: one file for each personalisation, which holds the server's part too."""
