"""FedKWS-UI: keyword spotting that does not depend on the user."""
