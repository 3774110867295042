"""The zoo: networks that devices train, one file for each family. docs/models.md describes them."""
