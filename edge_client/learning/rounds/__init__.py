"""The device's part in a round: train and upload, then apply the round's result.

A round of a method that trains a network begins in ``training_round``, one of prototypes in ``prototype_sharing``: from
the state folder to the outbox. What travels is made by a ``client_update``: ``score_sharing`` shares scores,
``weight_sharing`` weights, by ``local_training``. ``clips`` says what is trained and judged on. ``kept_model`` says
with which model the device listens afterwards, by ``guard``.
"""
