"""How long a board takes to train and to recognise, beside what Gudur & Perepu 2021 measured on a Raspberry Pi 2."""
