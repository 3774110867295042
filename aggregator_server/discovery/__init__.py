"""Class discovery: which reports of new sounds are one class, and how that class joins the public set."""
