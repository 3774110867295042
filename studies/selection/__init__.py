"""Dynamic selection and group-balanced personalisation, Xu et al. 2025."""
