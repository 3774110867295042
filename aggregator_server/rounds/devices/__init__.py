"""What a round asks of its devices: who takes part, what each is to do, and what each sent."""
