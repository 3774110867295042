"""What every run needs: its folder, inputs, rows and progress."""
